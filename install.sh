#!/bin/sh
# Installs tapline from a release, if its SHA-256 is right:
#
#   curl -fsSL https://github.com/tapline/tapline/releases/latest/download/install.sh | sh
#
# TAPLINE_VERSION names another release than the newest (v0.1.0), TAPLINE_INSTALL_DIR another folder than ~/.local/bin.
set -eu

fail() {
  echo "tapline: $*" >&2
  exit 1
}

# The name of this system in a release.
target() {
  case "$(uname -s) $(uname -m)" in
    'Linux x86_64') echo x86_64-unknown-linux-musl ;;
    'Linux aarch64' | 'Linux arm64') echo aarch64-unknown-linux-musl ;;
    'Darwin x86_64') echo x86_64-apple-darwin ;;
    'Darwin arm64') echo aarch64-apple-darwin ;;
    *) fail "there is no release for $(uname -s) on $(uname -m); build it from source: cargo install tapline-cli" ;;
  esac
}

download() { # URL FILE
  if command -v curl >/dev/null; then
    curl --fail --silent --show-error --location --retry 3 --proto '=https,file' --output "$2" "$1"
  else
    wget -q -O "$2" "$1"
  fi || fail "cannot download $1"
}

sha256() { # FILE
  if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d ' ' -f 1
}

main() {
  version=${TAPLINE_VERSION:-latest}
  releases=${TAPLINE_RELEASES:-https://github.com/tapline/tapline/releases}
  folder=${TAPLINE_INSTALL_DIR:-$HOME/.local/bin}
  case $version in
    latest) from=$releases/latest/download ;;
    v*[!0-9A-Za-z.+-]*) fail "there can be no release $version" ;;
    v[0-9]*) from=$releases/download/$version ;;
    *) fail "TAPLINE_VERSION must be a release such as v0.1.0, or latest" ;;
  esac
  name=tapline-$(target)
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  download "$from/$name.tar.gz" "$work/$name.tar.gz"
  download "$from/$name.tar.gz.sha256" "$work/sha256"
  is=$(sha256 "$work/$name.tar.gz")
  [ -n "$is" ] && [ "$is" = "$(cut -d ' ' -f 1 "$work/sha256")" ] || fail "the checksum of $name.tar.gz is wrong: nothing is installed"
  tar -xzf "$work/$name.tar.gz" -C "$work"
  mkdir -p "$folder"
  # A tapline that is running keeps its file.
  cp "$work/$name/tapline" "$folder/.tapline.$$"
  said=$("$folder/.tapline.$$" --version) || { rm -f "$folder/.tapline.$$"; fail "the binary does not run here: nothing is installed"; }
  mv -f "$folder/.tapline.$$" "$folder/tapline"
  echo "$said is installed: $folder/tapline"
  case :$PATH: in
    *:"$folder":*) ;;
    *) echo "Add $folder to your PATH." ;;
  esac
}

# Here, so that half a script does nothing.
main
