#!/bin/sh
# Makes OUTPUT, a program that is peer.py with the libraries it knows: build.sh OUTPUT
set -eu
here=$(cd "$(dirname "$0")" && pwd) output=$1
"$here/../../../../tools/fetch" /usr/bin/python3 -m pip install --quiet --disable-pip-version-check --no-deps --upgrade \
    --target "$output.packages" -r "$here/requirements.txt" >"$output.log" 2>&1 ||
    { cat "$output.log" >&2; exit 1; }
cat >"$output" <<END
#!/bin/sh
PYTHONPATH="$output.packages" exec /usr/bin/python3 -W ignore "$here/peer.py" "\$@"
END
chmod +x "$output"
