#!/bin/sh
# install-claude.sh installs the pinned claude command line from npm into
# .tools/claude (git-ignored) and prints the path of its native binary.
#
# The package's licence does not allow shipping it with ours, so every machine
# fetches its own. Its install script only links the native binary over a
# placeholder; it is not run (--ignore-scripts), the binary is used directly.
#
# usage: scripts/install-claude.sh [TARGET_DIR]      default: <project>/.tools/claude
set -eu

root=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)
target=${1:-$root/.tools/claude}
pins=$root/tools/claude

fail() {
	printf 'install-claude: %s\n' "$1" >&2
	exit 1
}

is_musl() {
	# Alpine and its like: the loader is musl's, or ldd says so.
	for loader in /lib/ld-musl-*; do
		[ -e "$loader" ] && return 0
	done
	ldd --version 2>&1 | grep -qi musl
}

case $(uname -s) in
Linux) os=linux ;;
Darwin) os=darwin ;;
*) fail "the claude command line has no build for $(uname -s); give the worker one with --claude PATH" ;;
esac
case $(uname -m) in
x86_64 | amd64) arch=x64 ;;
aarch64 | arm64) arch=arm64 ;;
*) fail "the claude command line has no build for $(uname -m); run workers on 64-bit x86 or ARM (the server runs here)" ;;
esac
variant=$os-$arch
if [ "$os" = linux ] && is_musl; then
	variant=$variant-musl
fi

version=$(sed -n 's/.*"@anthropic-ai\/claude-code": *"\([0-9.]*\)".*/\1/p' "$pins/package.json" | head -n 1)
[ -n "$version" ] || fail "no version is pinned in tools/claude/package.json"
binary=$target/node_modules/@anthropic-ai/claude-code-$variant/claude
stamp=$target/.installed-$version-$variant

if [ -f "$stamp" ] && [ -x "$binary" ]; then
	printf '%s\n' "$binary"
	exit 0
fi

command -v npm >/dev/null 2>&1 || fail "npm is needed to fetch the claude command line: install Node.js, or put claude on the PATH"
mkdir -p "$target"
cp "$pins/package.json" "$pins/package-lock.json" "$pins/.npmrc" "$target/"
printf 'install-claude: fetching claude %s (%s) from npm, about 250 MB on disk\n' "$version" "$variant" >&2
libc=glibc
case $variant in *-musl) libc=musl ;; esac
if ! (cd "$target" && npm ci --ignore-scripts --no-audit --no-fund --os="$os" --cpu="$arch" --libc="$libc" >npm.log 2>&1); then
	tail -n 20 "$target/npm.log" >&2
	fail "npm could not install it (log above); is the registry reachable?"
fi
[ -f "$binary" ] || fail "npm ended well but $binary is missing"
chmod +x "$binary"
"$binary" --version >/dev/null 2>&1 || fail "$binary does not run on this machine"
rm -f "$target"/.installed-*
: >"$stamp"
printf '%s\n' "$binary"
