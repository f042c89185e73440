// Package workload makes ManifestWorks of plain Kubernetes YAML and follows them: it reads objects, puts them into as many
// works as the hub's limit asks for, writes those so that no object is lost on the way, and tells how they do. It is what
// nave work is made of, and runs beside a person at a terminal rather than in hub or agent.
//
//	files → objects → parts of a set → works on the hub → state of each manifest
package workload

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxInput bounds what is read of all sources together, in bytes: far above any chart, and below what would hurt the machine
// of whoever types the command.
const maxInput = 64 << 20

// Reader reads objects from files.
type Reader struct {
	Stdin     io.Reader // what the source "-" reads; nil if there is nothing to read
	Recursive bool      // directories with all below them

	read int // bytes so far
}

// Read returns the objects of all sources, in order: files, directories (their .yaml, .yml and .json files), or "-". It
// refuses what cannot be in a work: no name or a generated one, no kind, the same object twice.
func (r *Reader) Read(sources []string) ([]Object, error) {
	var all []Object
	for _, source := range sources {
		files, err := r.files(source)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := r.text(file)
			if err != nil {
				return nil, err
			}
			objects, err := parse(displayed(file), text)
			if err != nil {
				return nil, err
			}
			all = append(all, objects...)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: there are no objects in it", strings.Join(sources, ", "))
	}
	return all, checkTwice(all)
}

func displayed(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}

// files are the files of a source in order of their names.
func (r *Reader) files(source string) ([]string, error) {
	if source == "-" {
		return []string{source}, nil
	}
	if strings.HasPrefix(source, "http://") || strings.HasPrefix(source, "https://") {
		return nil, fmt.Errorf("%s is no file; fetch it yourself and pass it on: curl -sSf %s | nave work apply -f -", source, source)
	}
	info, err := os.Stat(source)
	if err != nil {
		return nil, fmt.Errorf("read objects: %w", err)
	}
	if !info.IsDir() {
		return []string{source}, nil
	}
	var files []string
	err = filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != source && !r.Recursive:
			return fs.SkipDir
		case !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)):
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read objects: %w", err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("directory %s has no .yaml, .yml or .json files; those of the directories below it are read with --recursive", source)
	}
	return files, nil
}

func (r *Reader) text(file string) ([]byte, error) {
	in := r.Stdin
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("read objects: %w", err)
		}
		defer opened.Close()
		in = opened
	}
	if in == nil {
		return nil, errors.New("read objects: there is nothing at standard input")
	}
	text, err := io.ReadAll(io.LimitReader(in, int64(maxInput-r.read)+1))
	if err != nil {
		return nil, fmt.Errorf("read objects of %s: %w", displayed(file), err)
	}
	if r.read += len(text); r.read > maxInput {
		return nil, fmt.Errorf("%s: the objects are more than %d bytes together, which is as much as is read at once; apply them in several calls with a --name each", displayed(file), maxInput)
	}
	return text, nil
}

// document is one YAML or JSON document of a file.
type document struct {
	place string // for messages: which file, which document
	text  []byte
}

// documents splits YAML at its marks. A line that only ends a document, and directives, are no content of any.
func documents(file string, text []byte) []document {
	var all []document
	var current [][]byte
	begun, line := 1, 0
	flush := func() {
		if content := bytes.Join(current, []byte("\n")); hasContent(content) {
			all = append(all, document{fmt.Sprintf("%s, document %d (line %d)", file, len(all)+1, begun), content})
		}
		current, begun = nil, line
	}
	for raw := range bytes.Lines(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))) {
		line++
		l := bytes.TrimRight(raw, "\r\n")
		switch {
		case isMark(l, "---"):
			flush()
			current = append(current, l[3:])
		case isMark(l, "..."):
			flush()
		case len(l) > 0 && l[0] == '%' && !hasContent(bytes.Join(current, []byte("\n"))):
		default:
			if len(current) == 0 {
				begun = line
			}
			current = append(current, l)
		}
	}
	flush()
	return all
}

func isMark(line []byte, mark string) bool {
	rest, ok := bytes.CutPrefix(line, []byte(mark))
	return ok && (len(rest) == 0 || rest[0] == ' ' || rest[0] == '\t')
}

// hasContent tells whether there is more than comments and blanks.
func hasContent(text []byte) bool {
	for line := range bytes.Lines(text) {
		if l := bytes.TrimSpace(line); len(l) > 0 && l[0] != '#' {
			return true
		}
	}
	return false
}
