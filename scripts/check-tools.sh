#!/bin/sh
# Names what is missing to build nave on this machine, in one line each.
missing=0
need() {
	command -v "$1" >/dev/null 2>&1 && return
	echo "missing: $1 ($2)" >&2
	missing=1
}
need go "Go 1.26 or newer, https://go.dev/dl"
need git "the version of the build comes from it"
need gcc "a C compiler; on Debian: apt-get install gcc libc6-dev"
[ "$missing" = 0 ] || exit 1

# go.mod names the oldest version that will do. An older go fetches it by itself unless GOTOOLCHAIN forbids that.
wanted=$(sed -n 's/^go \([0-9]*\.[0-9]*\).*/\1/p' go.mod)
have=$(go env GOVERSION | sed -n 's/^go\([0-9]*\.[0-9]*\).*/\1/p')
oldest=$(printf '%s\n%s\n' "$wanted" "$have" | sort -V | head -n 1)
if [ "$oldest" != "$wanted" ]; then
	echo "missing: Go $wanted or newer, this is $have (https://go.dev/dl)" >&2
	exit 1
fi
