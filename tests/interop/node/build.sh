#!/bin/sh
# Makes OUTPUT, a program that is peer.js with node-redlock: build.sh OUTPUT
# Where npm can't bring it, OUTPUT says why and exits with 69: this peer is an optional one.
set -eu
here=$(dirname "$0") output=$1
modules=$output.modules
mkdir -p "$modules"
cp "$here/package.json" "$here/package-lock.json" "$here/peer.js" "$modules"
echo '#!/bin/sh' >"$output"
if timeout 60 npm ci --prefix "$modules" --ignore-scripts --no-audit --no-fund --fetch-retries=1 \
    >"$output.log" 2>&1 </dev/null; then
    echo "exec node '$modules/peer.js' \"\$@\"" >>"$output"
else
    echo "echo 'npm could not bring it, see $output.log' >&2; exit 69" >>"$output"
fi
chmod +x "$output"
