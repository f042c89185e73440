package token

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func newToken(t testing.TB) Token {
	t.Helper()
	token, err := New([32]byte{1, 2, 3})
	require.NoError(t, err)
	return token
}

func TestParse(t *testing.T) {
	good := newToken(t)
	text := good.String()
	parts := strings.Split(text, ".")
	for _, test := range []struct{ name, text, want string }{
		{"as printed", text, ""},
		{"with the end of a line", "  " + text + "\n", ""},
		{"empty", "", "1 parts"},
		{"cut off", text[:len(text)-1], "last part"},
		{"two in one", text + text, "parts between dots"},
		{"another format", "nave2." + strings.Join(parts[1:], "."), "does not begin with nave1"},
		{"short hash", "nave1.AAAA." + parts[2] + "." + parts[3], "hash of a CA"},
		{"hash with stray bits", "nave1." + parts[1][:42] + "B." + parts[2] + "." + parts[3], "hash of a CA"},
		{"capital in id", "nave1." + parts[1] + ".ABCDEFGHIJ." + parts[3], "third part"},
		{"letters that look alike", "nave1." + parts[1] + "." + parts[2] + "." + strings.Repeat("а", 16), "last part"},
		{"too long", strings.Repeat("a", maxLength+1), "longer than 256"},
		{"a bootstrap token", "abcdef.0123456789abcdef", "2 parts"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Parse(test.text)
			if test.want == "" {
				require.NoError(t, err)
				require.Equal(t, good, got)
				return
			}
			require.ErrorIs(t, err, ErrMalformed)
			require.ErrorContains(t, err, test.want)
			require.NotContains(t, err.Error(), good.Secret)
		})
	}
}

func TestBearer(t *testing.T) {
	token := newToken(t)
	id, secret, ok := ParseBearer(token.Bearer())
	require.True(t, ok)
	require.Equal(t, token.ID, id)
	require.Equal(t, token.Secret, secret)
	for _, other := range []string{"", token.String(), "abcdef.0123456789abcdef", "nave-join." + token.ID, token.Bearer() + "x", "eyJhbGciOi.eyJpc3Mi.c2ln"} {
		_, _, ok := ParseBearer(other)
		require.False(t, ok, other)
	}
}

func TestRecord(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	token := newToken(t)
	fresh := Record{ID: token.ID, Hash: Hash(token.Secret), Expires: now.Add(time.Hour)}
	with := func(change func(*Record)) Record {
		r := fresh
		change(&r)
		return r
	}
	for _, test := range []struct {
		name   string
		record Record
		state  string
		cause  metav1.CauseType
	}{
		{"fresh", fresh, "unused", ""},
		{"never expires", with(func(r *Record) { r.Expires = time.Time{} }), "unused", ""},
		{"at its end", with(func(r *Record) { r.Expires = now }), "expired", CauseExpired},
		{"used", with(func(r *Record) { r.UsedAt, r.Cluster, r.Key = now, "c1", "00" }), "used", ""},
		{"used and past its end", with(func(r *Record) { r.UsedAt, r.Expires = now, now }), "used", CauseUsed},
		{"revoked", with(func(r *Record) { r.RevokedAt = now }), "revoked", CauseRevoked},
		{"bound and accepting", with(func(r *Record) { r.Cluster, r.Bound, r.AutoAccept = "c1", true, true }), "unused", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			stored := test.record.Secret()
			require.NotContains(t, stored.String(), token.Secret)
			read, err := FromSecret(stored)
			require.NoError(t, err)
			require.Equal(t, test.record, read)
			require.True(t, read.Matches(token.Secret))
			require.False(t, read.Matches(token.Secret[1:]+"x"))
			require.Equal(t, test.state, read.State(now))
			cause, text := read.Unusable(now)
			require.Equal(t, test.cause, cause)
			require.Equal(t, cause != "", text != "")
		})
	}
}

func TestFromSecretRefuses(t *testing.T) {
	record := Record{ID: "abcdefghij", Hash: "00", Expires: time.Now()}
	other := record.Secret()
	other.Type = "Opaque"
	_, err := FromSecret(other)
	require.ErrorContains(t, err, "is no join token")
	broken := record.Secret()
	broken.Data[keyExpires] = []byte("tomorrow")
	_, err = FromSecret(broken)
	require.ErrorContains(t, err, "expires")
}

func FuzzParse(f *testing.F) {
	f.Add(newToken(f).String())
	f.Add("nave1...")
	f.Fuzz(func(t *testing.T, text string) {
		token, err := Parse(text)
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			return
		}
		require.Equal(t, strings.TrimSpace(text), token.String())
	})
}

func FuzzParseBearer(f *testing.F) {
	f.Add(newToken(f).Bearer())
	f.Fuzz(func(t *testing.T, text string) {
		if id, secret, ok := ParseBearer(text); ok {
			require.Equal(t, text, Token{ID: id, Secret: secret}.Bearer())
		}
	})
}
