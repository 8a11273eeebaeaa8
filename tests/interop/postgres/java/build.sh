#!/bin/sh
# Makes OUTPUT, a program that is Peer with PostgreSQL's JDBC driver: build.sh OUTPUT
set -eu
here=$(dirname "$0") output=$1
"$here/../../../../tools/fetch" mvn -q -B -f "$here/pom.xml" dependency:build-classpath \
    "-Dmdep.outputFile=$output.classpath" >"$output.log" 2>&1 || { cat "$output.log" >&2; exit 1; }
mkdir -p "$output.classes"
javac -cp "$(cat "$output.classpath")" -d "$output.classes" "$here"/*.java
cat >"$output" <<END
#!/bin/sh
exec java -cp "$output.classes:$(cat "$output.classpath")" Peer "\$@"
END
chmod +x "$output"
