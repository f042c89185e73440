package log

import (
	"fmt"
	"io"
	"strings"

	"github.com/sirupsen/logrus"
)

// Formats of log lines.
const (
	FormatText = "text"
	FormatJSON = "json"
)

// New makes the logger of a process. Level is one of logrus' names, format one of the constants.
func New(level, format string, out io.Writer) (*logrus.Logger, error) {
	parsed, err := logrus.ParseLevel(level)
	if err != nil {
		return nil, fmt.Errorf("log level %q is unknown; choose one of %s", level, strings.Join(levels(), ", "))
	}
	logger := logrus.New()
	logger.SetOutput(out)
	logger.SetLevel(parsed)
	switch format {
	case FormatText:
		logger.SetFormatter(&logrus.TextFormatter{FullTimestamp: true, DisableColors: true})
	case FormatJSON:
		logger.SetFormatter(&logrus.JSONFormatter{})
	default:
		return nil, fmt.Errorf("log format %q is unknown; choose %s or %s", format, FormatText, FormatJSON)
	}
	return logger, nil
}

func levels() []string {
	var names []string
	for _, l := range []logrus.Level{logrus.ErrorLevel, logrus.WarnLevel, logrus.InfoLevel, logrus.DebugLevel, logrus.TraceLevel} {
		names = append(names, l.String())
	}
	return names
}
