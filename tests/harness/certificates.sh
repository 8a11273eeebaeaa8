#!/bin/sh
# Makes an authority and the certificates that the tests of TLS need: certificates.sh DIRECTORY
#
#   ca.pem       the authority of all but the last two; ca/ the same, named by hash
#   server       localhost, 127.0.0.1 and ::1       wrong    another host's
#   expired      until 2020                         early    from 2090 on
#   revoked      in the list crl.pem                nameless a host in its subject only
#   client       for ourselves; locked.key is its key, opened by what password has
#   selfsigned   its own authority                  other    another authority
#   before.pem   the list before that              old.pem  one that has expired
set -eu
cd "$1"
mkdir ca
: >index.txt
echo 1000 >serial
echo 1000 >number
cat >conf <<'END'
[ca]
default_ca = us
[us]
database = index.txt
new_certs_dir = ca
serial = serial
crlnumber = number
certificate = ca.pem
private_key = ca.key
default_md = sha256
default_days = 30
default_crl_days = 30
policy = any
copy_extensions = copy
unique_subject = no
[any]
commonName = supplied
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical, CA:true
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
END
export OPENSSL_CONF=conf
new='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -config conf'
here='DNS:localhost,IP:127.0.0.1,IP:::1'

# shellcheck disable=SC2086 # the words of $new
authority() {
    openssl req -x509 $new -days 30 -keyout "$1.key" -out "$1.pem" -subj "/CN=$1 of a test" \
        -extensions authority
}

# shellcheck disable=SC2086
issue() { # NAME SUBJECT-ALTERNATIVE-NAMES [DATES]
    openssl req -new $new -keyout "$1.key" -out request -subj "/CN=$1" ${2:+-addext "subjectAltName=$2"}
    openssl ca -batch -notext -config conf -in request -out "$1.pem" ${3:-}
}

{
    authority ca
    authority other
    issue server "$here"
    issue wrong DNS:elsewhere.example
    issue expired "$here" '-startdate 20190101000000Z -enddate 20200101000000Z'
    issue early "$here" '-startdate 20900101000000Z -enddate 20910101000000Z'
    issue revoked "$here"
    issue nameless ''
    issue client ''
    # shellcheck disable=SC2086
    openssl req -x509 $new -days 30 -keyout selfsigned.key -out selfsigned.pem -subj /CN=self \
        -addext "subjectAltName=$here"
    openssl ca -config conf -gencrl -out before.pem
    openssl ca -config conf -revoke revoked.pem
    openssl ca -config conf -gencrl -out crl.pem
    openssl ca -config conf -gencrl -out old.pem -crl_lastupdate 20190101000000Z -crl_nextupdate 20200101000000Z
    echo k3y-c4nary >password
    openssl pkcs8 -topk8 -v2 aes-256-cbc -in client.key -out locked.key -passout file:password
    cp ca.pem "ca/$(openssl x509 -in ca.pem -noout -hash).0"
} >log 2>&1 || {
    cat log >&2
    exit 1
}
