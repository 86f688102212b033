#!/bin/sh
# Installs zero for the user who runs it: verifies the archive, then puts it below ~/.local.
#
#     sh install.sh [--from ADDRESS] [--prefix FOLDER] [--version VERSION] [--key PUBLICKEY]
#     sh install.sh --remove [--prefix FOLDER]
#
# ADDRESS is where the files of a release are, as https://… or as a folder; ZERO_RELEASE_ADDRESS does the same. zero is
# replaced in one step at the end, so that a failure at any time leaves the version that was there.
set -eu

default_address=''
default_key=''

# The largest archive and list of sums that are fetched.
archive_bytes_max=104857600
sums_bytes_max=65536

say() { printf '%s\n' "$*"; }
fail() {
    printf 'error: %s\n' "$1" >&2
    shift
    for line; do printf '  %s\n' "$line" >&2; done
    exit 1
}

usage() {
    say 'Usage: sh install.sh [--from ADDRESS] [--prefix FOLDER] [--version VERSION] [--key PUBLICKEY]'
    say '       sh install.sh --remove [--prefix FOLDER]'
}

address=${ZERO_RELEASE_ADDRESS:-$default_address}
key=${ZERO_RELEASE_KEY:-$default_key}
# A key that the user names must verify the release; the script's own does so where minisign is installed.
must_verify=${ZERO_RELEASE_KEY:-}
prefix=${ZERO_PREFIX:-}
version=
remove=
while [ $# -gt 0 ]; do
    case $1 in
        --from | --prefix | --version | --key)
            [ $# -ge 2 ] || fail "$1 needs a value"
            case $1 in
                --from) address=$2 ;;
                --prefix) prefix=$2 ;;
                --version) version=$2 ;;
                --key) key=$2 must_verify=yes ;;
            esac
            shift 2
            ;;
        --remove) remove=yes; shift ;;
        --help | -h) usage; exit 0 ;;
        *) usage >&2; fail "unknown option $1" ;;
    esac
done

if [ -z "$prefix" ]; then
    [ -n "${HOME:-}" ] || fail 'HOME is not set, so there is no folder to install into' 'set HOME, or pass --prefix FOLDER'
    prefix=$HOME/.local
fi
case $prefix in
    /*) ;;
    *) prefix=$PWD/$prefix ;;
esac

if [ -n "$remove" ]; then
    list=$prefix/share/zero/files.txt
    [ -f "$list" ] || fail "no zero of this installer is in $prefix: $list is missing"
    # The list names itself, so it is read first.
    files=$(cat "$list")
    case "
$files" in
        *'
/'* | *..*) fail "$list names files that are not below $prefix" ;;
    esac
    printf '%s\n' "$files" | while IFS= read -r file; do
        rm -f "$prefix/$file" || fail "could not remove $prefix/$file"
    done
    printf '%s\n' "$files" | sed 's,/[^/]*$,,' | sort -ru | while IFS= read -r folder; do
        # Only folders that are empty now, from the inside out.
        while [ -n "$folder" ] && rmdir "$prefix/$folder" 2> /dev/null; do
            case $folder in
                */*) folder=${folder%/*} ;;
                *) folder= ;;
            esac
        done
    done
    say "removed zero from $prefix"
    say 'your settings and sessions are kept: see `rm -r ~/.config/zero ~/.local/state/zero ~/.cache/zero`'
    exit 0
fi

[ -n "$address" ] || fail 'no address of a release is known' \
    'pass it: sh install.sh --from https://…, or set ZERO_RELEASE_ADDRESS'
address=${address%/}

system=$(uname -s)
machine=$(uname -m)
case $machine in
    amd64) machine=x86_64 ;;
    arm64) machine=aarch64 ;;
esac
[ "$system" = Linux ] || fail "zero is not released for $system" 'build it from source: see docs/start/install.md'
platform=$machine-linux

for program in tar gzip sed uname mktemp; do
    command -v "$program" > /dev/null || fail "\`$program\` is missing, and the installer needs it"
done
if command -v sha256sum > /dev/null; then
    sha256() { sha256sum "$1"; }
elif command -v shasum > /dev/null; then
    sha256() { shasum -a 256 "$1"; }
elif command -v openssl > /dev/null; then
    sha256() { openssl dgst -sha256 -r "$1"; }
else
    fail 'no program computes SHA-256 sums' 'install one of sha256sum, shasum and openssl'
fi

mkdir -p "$prefix" 2> /dev/null || fail "$prefix cannot be made" \
    'the installer never asks for root; pass a folder of yours: --prefix FOLDER'
# In the prefix, so that files are moved within one file system.
work=$(mktemp -d "$prefix/.zero-install.XXXXXX" 2> /dev/null) || fail "$prefix cannot be written to" \
    'the installer never asks for root; pass a folder of yours: --prefix FOLDER'
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Why a download may have failed, as far as the environment says.
proxy_hint() {
    used=
    for name in https_proxy HTTPS_PROXY http_proxy all_proxy ALL_PROXY; do
        eval "value=\${$name:-}"
        if [ -n "$value" ]; then
            used="$used $name"
        fi
    done
    if [ -n "$used" ]; then
        printf 'these variables send downloads through a proxy:%s; check them, or unset them' "$used"
    else
        printf 'if this machine needs a proxy, set https_proxy'
    fi
}

fetch() { # name, target, most bytes
    case $address in
        http://* | https://*)
            # A server with https must not send the download on to http.
            case $address in
                https://*) schemes='=https' ;;
                *) schemes='=http,https' ;;
            esac
            if command -v curl > /dev/null; then
                curl --fail --silent --show-error --location --proto "$schemes" --connect-timeout 20 \
                    --speed-limit 1000 --speed-time 30 --max-filesize "$3" --output "$2" "$address/$1" 2> "$work/problem" && return
            elif command -v wget > /dev/null; then
                wget --quiet --timeout=30 --tries=1 --output-document="$2" "$address/$1" 2> "$work/problem" && return
            else
                fail 'neither curl nor wget is installed' 'install one of them, or fetch the release and pass its folder: --from FOLDER'
            fi
            fail "could not fetch $address/$1: $(head -n 1 "$work/problem")" "$(proxy_hint)" 'the zero that was installed before, if any, is unchanged'
            ;;
        *)
            [ -f "$address/$1" ] || fail "$address/$1 does not exist" 'pass the folder or address of a release with --from'
            cp "$address/$1" "$2"
            ;;
    esac
}

fetch SHA256SUMS "$work/SHA256SUMS" "$sums_bytes_max"

if [ -n "$key" ]; then
    fetch SHA256SUMS.minisig "$work/SHA256SUMS.minisig" "$sums_bytes_max"
    if command -v minisign > /dev/null; then
        minisign -V -q -P "$key" -m "$work/SHA256SUMS" -x "$work/SHA256SUMS.minisig" > /dev/null 2>&1 || fail \
            'the signature of the sums is wrong, so nothing is installed' \
            "the files at $address are not those of the release, or were signed with another key than $key"
        say 'signature: valid'
    elif [ -n "$must_verify" ]; then
        fail 'minisign is not installed, so the release cannot be verified with the key that you named' \
            'install the package `minisign` of your system, or leave out --key and ZERO_RELEASE_KEY'
    else
        say 'note: minisign is not installed, so the signature was not verified, only the sums'
    fi
fi

archive=
while read -r sum name; do
    case $name in
        "zero-$version-$platform.tar.gz") archive=$name; expected=$sum ;;
        zero-[0-9]*-"$platform".tar.gz)
            if [ -z "$version" ]; then archive=$name; expected=$sum; fi
            ;;
    esac
done < "$work/SHA256SUMS"
[ -n "$archive" ] || fail "the release at $address has no ${version:+version $version of }zero for $platform" \
    'build it from source: see docs/start/install.md'
case $archive in
    */* | *..*) fail "the sums name $archive, which is not a file name" ;;
esac

fetch "$archive" "$work/$archive" "$archive_bytes_max"
sum=$(sha256 "$work/$archive")
sum=${sum%% *}
[ "$sum" = "$expected" ] || fail "$archive is damaged or was changed: its SHA-256 is" "$sum" "and should be" "$expected" \
    'the download is incomplete or was changed; try again' 'the zero that was installed before, if any, is unchanged'

mkdir "$work/tree"
tar -xzf "$work/$archive" -C "$work/tree" 2> "$work/problem" || fail \
    "could not unpack $archive: $(head -n 1 "$work/problem")" 'is the disk full?'
[ -f "$work/tree/share/zero/files.txt" ] || fail "$archive is not a release of zero"
found=$("$work/tree/bin/zero" --version 2> "$work/problem") || fail \
    "the program does not run on this machine: $(head -n 1 "$work/problem")" \
    'it needs glibc 2.28 or later; on musl and older systems, build it from source'

# The program last: until then, the old one runs.
while IFS= read -r file; do
    case $file in
        bin/zero | '') continue ;;
        /* | *..*) fail "$archive names $file, which is not below $prefix" ;;
    esac
    mkdir -p "$prefix/${file%/*}" || fail "could not make $prefix/${file%/*}"
    mv -f "$work/tree/$file" "$prefix/$file" || fail "could not write $prefix/$file"
done < "$work/tree/share/zero/files.txt"
mkdir -p "$prefix/bin" || fail "could not make $prefix/bin"
mv -f "$work/tree/bin/zero" "$prefix/bin/zero" || fail "could not write $prefix/bin/zero" \
    'the zero that was installed before, if any, is unchanged'

say "installed $found as $prefix/bin/zero"
case ":${PATH:-}:" in
    *":$prefix/bin:"*) ;;
    *) say "add it to your PATH: export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
if ! command -v bwrap > /dev/null; then
    say 'note: bubblewrap is missing; without it, zero runs no commands: install the package `bubblewrap` of your system'
fi
say 'next: zero doctor'
