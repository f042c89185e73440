// Package config fills the flags of a command from the environment and from a YAML file, and remembers where each value
// came from. Flags are the only schema: a key of the file is a flag's name, a variable is NAVE_ and that name. What is given
// closer to the command wins:
//
//	command line > environment > file > default
//
// The flags and the environment are handed in; this package reads nothing but the file.
package config

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

const (
	// FileFlag names the flag with the path of the file. Commands without it read no file.
	FileFlag = "config"

	// envPrefix precedes a flag's name in the environment.
	envPrefix = "NAVE_"
)

// Loader says where to look. Lookup is os.LookupEnv outside of tests.
type Loader struct {
	Flags  *pflag.FlagSet // parsed already; values are set in it
	Lookup func(variable string) (value string, ok bool)

	// Foreign are flags of other commands and the command that has them ("listen" → "nave hub"), so that a key which is
	// in the wrong file is told apart from one that is misspelt.
	Foreign map[string]string
}

// EnvName is the variable of a flag: NAVE_DATA_DIR for data-dir.
func EnvName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Load sets every flag that the command line left alone and that the environment or the file has a value for, and returns
// where each flag's value is from. An empty variable counts as not set. The error is one line for the person who wrote the
// value.
func (l Loader) Load() (Origins, error) {
	origins := Origins{}
	l.Flags.VisitAll(func(f *pflag.Flag) {
		origins[f.Name] = Origin{Source: Default}
		if f.Changed {
			origins[f.Name] = Origin{Source: CommandLine, Place: "--" + f.Name}
		}
	})
	if err := l.environment(origins); err != nil {
		return nil, err
	}
	f := l.Flags.Lookup(FileFlag)
	if f == nil || f.Value.String() == "" {
		return origins, nil
	}
	return origins, l.file(f.Value.String(), origins)
}

func (l Loader) environment(origins Origins) error {
	var first error
	l.Flags.VisitAll(func(f *pflag.Flag) {
		name := EnvName(f.Name)
		value, ok := l.Lookup(name)
		if first != nil || !ok || value == "" || f.Name == helpFlag || origins[f.Name].Source != Default {
			return
		}
		if err := l.Flags.Set(f.Name, value); err != nil {
			first = fmt.Errorf("environment variable %s: %w", name, wrongValue(f, value))
			return
		}
		origins[f.Name] = Origin{Source: Environment, Place: name}
	})
	return first
}

// wrongValue says what is wrong with a value in the words of the flag's type; the errors of pflag repeat the flag and
// name Go functions. The value of a secret is never wrong in this sense, since any text is a token until it is parsed.
func wrongValue(f *pflag.Flag, value string) error {
	return fmt.Errorf("%q is not %s", value, kind(f))
}

func kind(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "bool":
		return "true or false"
	case "duration":
		return "a duration such as 30s, 15m or 24h"
	case "int", "int32", "int64", "uint", "uint32", "uint64":
		return "a whole number"
	case "stringSlice", "stringArray":
		return "a list of texts"
	default:
		return "a " + f.Value.Type()
	}
}
