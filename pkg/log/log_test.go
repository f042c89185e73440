package log

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

func TestNew(t *testing.T) {
	for _, test := range []struct{ name, level, format, want string }{
		{"text", "info", FormatText, ""},
		{"json", "debug", FormatJSON, ""},
		{"unknown level", "loud", FormatText, `log level "loud" is unknown; choose one of error, warning, info, debug, trace`},
		{"unknown format", "info", "xml", `log format "xml" is unknown; choose text or json`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := New(test.level, test.format, &bytes.Buffer{})
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, test.want)
		})
	}
}

func TestLibrariesAreQuieter(t *testing.T) {
	for _, test := range []struct {
		name  string
		write func(logrus.FieldLogger)
		want  string // level of the line; empty where there is none at debug
	}{
		{"klog's information", func(l logrus.FieldLogger) { slog.New(slogHandler{log: l}).Info("text", "key", "value") }, "debug"},
		{"klog's error", func(l logrus.FieldLogger) { slog.New(slogHandler{log: l}).Error("text", "key", "value") }, "warning"},
		{"klog's details", func(l logrus.FieldLogger) {
			slog.New(slogHandler{log: l}).Log(context.Background(), slog.LevelDebug, "text", "key", "value")
		}, ""},
		{"zap's information", func(l logrus.FieldLogger) { Zap(l).Info("text", zap.String("key", "value")) }, "debug"},
		{"zap's error", func(l logrus.FieldLogger) {
			Zap(l).With(zap.String("key", "value")).Error("text", zap.Error(errors.New("e")))
		}, "warning"},
		{"zap's details", func(l logrus.FieldLogger) { Zap(l).Debug("text", zap.String("key", "value")) }, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			out := &bytes.Buffer{}
			logger, err := New("debug", FormatText, out)
			require.NoError(t, err)
			test.write(logger)
			if test.want == "" {
				require.Empty(t, out.String())
				return
			}
			require.Contains(t, out.String(), "level="+test.want)
			require.Contains(t, out.String(), "msg=text")
			require.Contains(t, out.String(), "key=value")
		})
	}
}
