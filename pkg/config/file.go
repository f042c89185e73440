package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

const (
	// maxFileBytes bounds what is read of a file: a thousand times what all flags together need, and little enough that
	// a wrong path (a disk image, a log) does no harm.
	maxFileBytes = 1 << 20

	helpFlag = "help"
)

// file sets flags from the YAML file at path.
func (l Loader) file(path string, origins Origins) error {
	text, err := read(path)
	if err != nil {
		return fmt.Errorf("config file %s: %w", path, err)
	}
	keys, err := parse(text)
	if err != nil {
		return fmt.Errorf("config file %s: %w", path, err)
	}
	for _, k := range keys {
		if err := l.set(k, path, origins); err != nil {
			return fmt.Errorf("config file %s line %d: %w", path, k.line, err)
		}
	}
	return nil
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, cause(err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, cause(err)
	}
	if len(text) > maxFileBytes {
		return nil, fmt.Errorf("is larger than %d bytes, which no configuration is", maxFileBytes)
	}
	return text, nil
}

// cause drops operation and path, which stand in front of the error already.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// key is one line of the file.
type key struct {
	name  string
	value *yaml.Node
	line  int
}

// parse takes the file apart: one mapping of names to scalars or lists, each name once.
func parse(text []byte) ([]key, error) {
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	var document, another yaml.Node
	if err := decoder.Decode(&document); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, oneLine(err)
	}
	if err := decoder.Decode(&another); !errors.Is(err, io.EOF) {
		if err != nil {
			return nil, oneLine(err)
		}
		return nil, fmt.Errorf("line %d: a second document begins; write everything into one", another.Line)
	}
	root := document.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: write one \"flag: value\" a line", root.Line)
	}
	var keys []key
	lines := map[string]int{}
	for i := 0; i < len(root.Content); i += 2 {
		name, value := root.Content[i], root.Content[i+1]
		if before, twice := lines[name.Value]; twice {
			return nil, fmt.Errorf("line %d: %s stands there already on line %d; keep one of them", name.Line, name.Value, before)
		}
		lines[name.Value] = name.Line
		keys = append(keys, key{name: name.Value, value: value, line: name.Line})
	}
	return keys, nil
}

// oneLine joins the lines of the parser's longer errors.
func oneLine(err error) error {
	return errors.New(strings.Join(strings.Fields(err.Error()), " "))
}

// set gives a flag the value of a key, unless a stronger source has one.
func (l Loader) set(k key, path string, origins Origins) error {
	f := l.Flags.Lookup(k.name)
	if f == nil || f.Name == helpFlag || f.Name == FileFlag {
		return l.unknown(k.name)
	}
	strong := origins[f.Name].Source != Default
	if err := assign(l.Flags, f, k.value, !strong); err != nil {
		return fmt.Errorf("%s: %w", k.name, err)
	}
	if !strong {
		origins[f.Name] = Origin{Source: File, Place: fmt.Sprintf("%s line %d", path, k.line)}
	}
	return nil
}

// assign makes sure that a value has a shape which the flag can take, and sets it if it shall count. A value that a
// stronger source hides is not parsed, since setting is the only way to parse.
func assign(flags *pflag.FlagSet, f *pflag.Flag, value *yaml.Node, apply bool) error {
	list, takesList := f.Value.(pflag.SliceValue)
	switch {
	case value.Kind == yaml.ScalarNode && value.Tag == "!!null":
		return errors.New("has no value; write one or remove the line")
	case value.Kind == yaml.ScalarNode:
		if !apply {
			return nil
		}
		if err := flags.Set(f.Name, value.Value); err != nil {
			return wrongValue(f, value.Value)
		}
		return nil
	case value.Kind == yaml.SequenceNode && takesList:
		texts, err := scalars(value)
		if err != nil || !apply {
			return err
		}
		if err := list.Replace(texts); err != nil {
			return wrongValue(f, strings.Join(texts, ","))
		}
		f.Changed = true
		return nil
	case value.Kind == yaml.SequenceNode:
		return fmt.Errorf("takes one value, %s, not a list", kind(f))
	default:
		return fmt.Errorf("takes %s, nothing nested", kind(f))
	}
}

func scalars(list *yaml.Node) ([]string, error) {
	var texts []string
	for _, item := range list.Content {
		if item.Kind != yaml.ScalarNode || item.Tag == "!!null" {
			return nil, fmt.Errorf("item on line %d of the list is no single value", item.Line)
		}
		texts = append(texts, item.Value)
	}
	return texts, nil
}

// unknown says what a key that is no flag could have been.
func (l Loader) unknown(name string) error {
	if owner, ok := l.Foreign[name]; ok {
		return fmt.Errorf("%s is a key of %s, not of this command; remove the line", name, owner)
	}
	var valid []string
	l.Flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != helpFlag && f.Name != FileFlag && !f.Hidden {
			valid = append(valid, f.Name)
		}
	})
	if near := Nearest(name, valid); near != "" {
		return fmt.Errorf("unknown key %s; did you mean %s?", name, near)
	}
	return fmt.Errorf("unknown key %s", name)
}
