#!/bin/sh
# Makes OUTPUT, a program that is peer.py with this version of kazoo: build.sh OUTPUT VERSION
set -eu
here=$(cd "$(dirname "$0")" && pwd) output=$1 version=$2
"$here/../../../../tools/fetch" /usr/bin/python3 -m pip install --quiet --disable-pip-version-check --no-deps --upgrade \
    --target "$output.packages" "kazoo==$version" >"$output.log" 2>&1 ||
    { cat "$output.log" >&2; exit 1; }
cat >"$output" <<END
#!/bin/sh
PYTHONPATH="$output.packages" exec /usr/bin/python3 "$here/peer.py" "\$@"
END
chmod +x "$output"
