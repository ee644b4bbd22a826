#!/bin/sh
# Creates MariaDB's tables and becomes the server, in the controller's container. All its files are
# in the container's memory: no write waits for a disk, and the files disappear with the cluster.
# Only root of this host can log in as its root. Statements can neither read nor write host files.
# usage: database.sh SOCKET USER
set -eu

socket=$1 user=$2
home=$(dirname "$socket")
mkdir -m 700 "$home" "$home/data" "$home/tmp" "$home/files"
chown -R "$user" "$home"
export TMPDIR="$home/tmp"
set -- --no-defaults --user="$user" --datadir="$home/data" --tmpdir="$home/tmp" \
    --innodb-log-file-size=16M
mariadb-install-db "$@" --auth-root-authentication-method=socket --auth-root-socket-user=root \
    --skip-test-db
exec mariadbd "$@" --socket="$socket" --skip-networking --secure-file-priv="$home/files" \
    --local-infile=0 --symbolic-links=0 \
    --innodb-buffer-pool-size=64M --innodb-lock-wait-timeout=900
