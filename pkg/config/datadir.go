package config

import "path/filepath"

// systemDataDir is where root keeps data, as the file-system hierarchy has it for the state of services.
const systemDataDir = "/var/lib/nave"

// DefaultDataDir is the data directory of a user who names none. It is empty for an ordinary user without a home, who has
// to name one.
func DefaultDataDir(uid int, home string) string {
	switch {
	case uid == 0:
		return systemDataDir
	case home == "":
		return ""
	default:
		return filepath.Join(home, ".local", "share", "nave")
	}
}
