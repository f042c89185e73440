package log

import (
	"context"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"

	"github.com/sirupsen/logrus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc/grpclog"
	"k8s.io/klog/v2"
)

// Embedded libraries are chatty for a process of which they are a small part. Their lines come in one level lower than
// they were written: what a library calls information is ours to debug with, its errors are our warnings.

// Bridge sends what the embedded libraries log through process-wide loggers (klog, the standard library's, gRPC's) into
// logger. The root command calls it once.
func Bridge(logger logrus.FieldLogger) {
	klog.SetSlogLogger(slog.New(slogHandler{log: logger}))
	klog.EnableContextualLogging(true)
	stdlog.SetFlags(0)
	stdlog.SetOutput(lineWriter{logger})
	// gRPC logs each try to connect; what fails for good comes back as an error.
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
}

// slogHandler is how klog's structured lines arrive.
type slogHandler struct {
	log   logrus.FieldLogger
	group string
}

// Enabled leaves the choice to logrus; klog's own verbosity has dropped what is finer than its level 0.
func (slogHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// Handle writes one line.
func (h slogHandler) Handle(_ context.Context, r slog.Record) error {
	fields := logrus.Fields{}
	r.Attrs(func(a slog.Attr) bool {
		fields[h.group+a.Key] = a.Value.Any()
		return true
	})
	entry := h.log.WithFields(fields)
	switch {
	case r.Level >= slog.LevelError:
		entry.Warn(r.Message)
	default:
		entry.Debug(r.Message)
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (h slogHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	fields := logrus.Fields{}
	for _, a := range attrs {
		fields[h.group+a.Key] = a.Value.Any()
	}
	return slogHandler{log: h.log.WithFields(fields), group: h.group}
}

// WithGroup implements slog.Handler.
func (h slogHandler) WithGroup(name string) slog.Handler {
	return slogHandler{log: h.log, group: h.group + name + "."}
}

// lineWriter takes what the standard logger writes, such as net/http's complaints about handshakes.
type lineWriter struct{ log logrus.FieldLogger }

func (w lineWriter) Write(line []byte) (int, error) {
	w.log.Debug(string(trimNewline(line)))
	return len(line), nil
}

func trimNewline(line []byte) []byte {
	for len(line) > 0 && line[len(line)-1] == '\n' {
		line = line[:len(line)-1]
	}
	return line
}

// Zap is a logger for libraries that want zap's, such as etcd.
func Zap(logger logrus.FieldLogger) *zap.Logger { return zap.New(zapCore{log: logger}) }

type zapCore struct{ log logrus.FieldLogger }

// Enabled drops zap's debug lines, which nobody but etcd's developers can read.
func (zapCore) Enabled(level zapcore.Level) bool { return level >= zapcore.InfoLevel }

// With implements zapcore.Core.
func (c zapCore) With(fields []zapcore.Field) zapcore.Core {
	return zapCore{log: c.log.WithFields(fieldsOf(fields))}
}

// Check implements zapcore.Core.
func (c zapCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return checked.AddCore(entry, c)
	}
	return checked
}

// Write writes one line.
func (c zapCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	line := c.log.WithFields(fieldsOf(fields))
	switch {
	case entry.Level >= zapcore.DPanicLevel:
		line.Error(entry.Message)
	case entry.Level >= zapcore.ErrorLevel:
		line.Warn(entry.Message)
	default:
		line.Debug(entry.Message)
	}
	return nil
}

// Sync implements zapcore.Core; logrus writes at once.
func (zapCore) Sync() error { return nil }

func fieldsOf(fields []zapcore.Field) logrus.Fields {
	encoder := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(encoder)
	}
	out := logrus.Fields{}
	for key, value := range encoder.Fields {
		out[key] = fmt.Sprint(value)
	}
	return out
}
