package api

import (
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// mostDigits is less than any number needs that is too large without an exponent.
	mostDigits = 300
	// shownDigits are enough to find a number again.
	shownDigits = 40
)

// checkNumbers refuses JSON with a number that no float of 64 bits comes near to. In a manifest, which stays raw, such a
// number would get as far as the code that keeps managed fields, which does not expect it and panics.
func checkNumbers(text []byte) error {
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '"':
			i = afterString(text, i+1)
		case c == '-' || (c >= '0' && c <= '9'):
			end, large := afterNumber(text, i)
			if large {
				if _, err := strconv.ParseFloat(string(text[i:end]), 64); err != nil {
					return apierrors.NewBadRequest(fmt.Sprintf("number %s is out of range: numbers are kept in 64 bits", text[i:min(end, i+shownDigits)]))
				}
			}
			i = end
		default:
			i++
		}
	}
	return nil
}

// afterString is where a string ends whose text begins at i.
func afterString(text []byte, i int) int {
	for ; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return i
}

// afterNumber is where a number ends that begins at i, and whether it may be too large.
func afterNumber(text []byte, i int) (end int, large bool) {
	for end = i; end < len(text); end++ {
		switch c := text[end]; {
		case c == 'e' || c == 'E':
			large = true
		case c != '-' && c != '+' && c != '.' && (c < '0' || c > '9'):
			return end, large || end-i > mostDigits
		}
	}
	return end, large || end-i > mostDigits
}
