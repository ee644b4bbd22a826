#!/bin/sh
# Lays out MariaDB's tables and becomes the server, in the controller's container. The tables live
# in the container's memory: no disk is waited for, and they go when the cluster goes.
# usage: database.sh SOCKET
set -eu

socket=$1 data=/dev/shm/mariadb
set -- --no-defaults --user=root --datadir=$data --innodb-log-file-size=16M
mariadb-install-db "$@" --auth-root-authentication-method=normal --skip-test-db
exec mariadbd "$@" --socket="$socket" --skip-networking \
    --innodb-buffer-pool-size=64M --innodb-lock-wait-timeout=900
