#!/bin/sh
# redirect.sh OBJCOPY OUT NAMES ARCHIVE HIREDIS COMPILER…: the objects of an archive, and what
# they need of hiredis, as one object that calls other functions, as NAMES says.
set -e
objcopy=$1 out=$2 names=$3 archive=$4 hiredis=$5
shift 5
[ -e "$hiredis" ] || hiredis=
# shellcheck disable=SC2086 # none, or one
"$@" -r -nostdlib -o "$out.all" -Wl,--whole-archive "$archive" -Wl,--no-whole-archive $hiredis
"$objcopy" --redefine-syms="$names" "$out.all" "$out"
rm "$out.all"
