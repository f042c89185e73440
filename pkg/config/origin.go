package config

import (
	"maps"
	"slices"
)

// Source is a kind of place that a value can come from.
type Source string

// The sources, weakest first.
const (
	Default     Source = "default"
	File        Source = "file"
	Environment Source = "environment"
	CommandLine Source = "command line"
)

// Origin is where the value of one flag came from.
type Origin struct {
	Source Source
	Place  string // flag, variable, or file with line; empty for a default
}

// String reads "file /etc/nave.yaml line 3".
func (o Origin) String() string {
	if o.Place == "" {
		return string(o.Source)
	}
	return string(o.Source) + " " + o.Place
}

// Origins are the origins of a command's flags, by name. They hold no values, so they may be logged and shown.
type Origins map[string]Origin

// Given reports whether somebody gave the flag a value, in whatever place.
func (o Origins) Given(flag string) bool {
	origin, ok := o[flag]
	return ok && origin.Source != Default
}

// Names lists the flags that somebody gave a value, sorted.
func (o Origins) Names() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(o)), func(name string) bool { return !o.Given(name) })
}
