#!/bin/sh
# Creates MariaDB's tables and becomes the server, in the controller's container. The tables are in
# the container's memory, so no disk is waited for, and they disappear with the cluster.
# usage: database.sh SOCKET
set -eu

socket=$1 data=/dev/shm/mariadb
set -- --no-defaults --user=root --datadir=$data --innodb-log-file-size=16M
mariadb-install-db "$@" --auth-root-authentication-method=normal --skip-test-db
exec mariadbd "$@" --socket="$socket" --skip-networking \
    --innodb-buffer-pool-size=64M --innodb-lock-wait-timeout=900
