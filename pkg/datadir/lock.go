// Package datadir guards a data directory: one process at a time, and none that is older than what lies in it.
package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	lockFile    = "lock"
	formatFile  = "format"
	formatLimit = 64 // bytes that are read of either file

	// format is the version of the layout of a data directory. It goes up when an older nave could not read what this
	// one writes.
	format = 1
)

// Lock makes dir if it is absent and takes it for the process that what names ("nave hub"). It fails, naming the other
// process, if dir is taken, cannot be written, or was written by a newer version. The kernel frees the lock when the
// process ends in whatever way; release frees it before.
func Lock(dir, what string) (release func() error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, notWritable(dir, err)
	}
	file, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, notWritable(dir, err)
	}
	if err := lockSoon(file); err != nil {
		defer file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("data directory %s is in use by %s; stop it or choose another one with --data-dir", dir, holder(file))
		}
		return nil, fmt.Errorf("lock data directory %s: %w", dir, err)
	}
	if err := errors.Join(sign(file, what), checkFormat(dir)); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file.Close, nil
}

const (
	// lastBreath is how long a process may hold its lock after it was killed: its threads may still be writing to a disk.
	lastBreath = 2 * time.Second
	lockTick   = 50 * time.Millisecond
)

// lockSoon takes the lock, for which it waits a little.
func lockSoon(file *os.File) error {
	for until := time.Now().Add(lastBreath); ; time.Sleep(lockTick) {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(until) {
			return err
		}
	}
}

// Held tells whether a process has taken dir.
func Held(dir string) (bool, error) {
	file, err := os.Open(filepath.Join(dir, lockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("lock of data directory %s: %w", dir, err)
	}
	defer file.Close() // which frees the lock, if this has got it
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("lock of data directory %s: %w", dir, err)
	}
	return false, nil
}

func notWritable(dir string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("data directory %s is not writable for this user; run as its owner or choose another one with --data-dir", dir)
	}
	return fmt.Errorf("data directory %s: %w; choose another one with --data-dir", dir, err)
}

// sign writes into the lock who has it.
func sign(file *os.File, what string) error {
	text := fmt.Sprintf("%s, pid %d\n", what, os.Getpid())
	if err := file.Truncate(0); err != nil {
		return fmt.Errorf("sign %s: %w", file.Name(), err)
	}
	if _, err := file.WriteAt([]byte(text), 0); err != nil {
		return fmt.Errorf("sign %s: %w", file.Name(), err)
	}
	return nil
}

func holder(file *os.File) string {
	text := make([]byte, formatLimit)
	n, _ := file.ReadAt(text, 0)
	if name := strings.TrimSpace(string(text[:n])); name != "" {
		return name
	}
	return "another process"
}

// checkFormat refuses a directory that a newer version wrote, and marks a new one.
func checkFormat(dir string) error {
	file := filepath.Join(dir, formatFile)
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return mark(file)
	}
	if err != nil {
		return fmt.Errorf("data directory %s: %w", dir, err)
	}
	if len(text) > formatLimit {
		text = text[:formatLimit]
	}
	found, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("data directory %s: file %s holds %q, not a format number; is this a data directory of nave?", dir, formatFile, text)
	}
	if found > format {
		return fmt.Errorf("data directory %s has format %d, this nave knows up to %d; use the version that wrote it or a newer one", dir, found, format)
	}
	return nil
}

// mark goes through a rename, so that a crash never leaves an empty mark.
func mark(file string) error {
	next := file + ".new"
	if err := os.WriteFile(next, fmt.Appendf(nil, "%d\n", format), 0o600); err != nil {
		return fmt.Errorf("mark data directory: %w", err)
	}
	if err := os.Rename(next, file); err != nil {
		return fmt.Errorf("mark data directory: %w", err)
	}
	return nil
}
