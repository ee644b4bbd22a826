#!/bin/sh
# Installs what a minicluster needs: Debian's packages and, for the rxe fabric, Debian's stock
# kernel, unpacked but not installed. Starts no service. See docs/minicluster.md.
# usage: install.sh [--fabric veth|rxe] [--check]      (default: rxe, which includes veth)
# With --check, or on a host without apt-get, it only lists what is missing.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
cache=/var/cache/nimc-minicluster
fabric=rxe check=
while [ $# -gt 0 ]; do
    case $1 in
    --check) check=yes ;;
    --fabric) fabric=${2:-} && shift ;;
    *) fabric=wrong ;;
    esac
    shift
done
case $fabric in veth | rxe) ;; *)
    echo 'usage: install.sh [--fabric veth|rxe] [--check]' >&2
    exit 2
    ;;
esac
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

present() { # present THING: a program, or a file by its path with wildcards
    case $1 in
    /*) for file in $1; do [ -e "$file" ] && return 0; done; return 1 ;;
    *) command -v "$1" > /dev/null ;;
    esac
}

missing_needs() { # missing_needs FAMILY: a line 'THING PACKAGE' for each need that is missing
    grep -v '^#' "$here/needs.txt" | while read -r for_fabric thing debian rhel; do
        [ "$for_fabric" = all ] || [ "$for_fabric" = "$fabric" ] || continue
        present "$thing" && continue
        if [ "$1" = rhel ]; then echo "$thing $rhel"; else echo "$thing $debian"; fi
    done
}

family=debian
command -v apt-get > /dev/null || family=rhel
missing=$(missing_needs $family)
if [ -z "$missing" ]; then
    echo "nothing is missing for --fabric $fabric"
    exit 0
fi
if [ -n "$check" ] || [ $family = rhel ]; then
    echo "$missing" | while read -r thing package; do
        echo "missing: $thing (package $package)"
    done
    [ $family = debian ] || echo "not Debian: install these packages by hand; on RHEL most" \
        "come from EPEL, and only --fabric veth can work (the kernel of RHEL lacks rdma_rxe)"
    exit 3
fi
if [ "$(id -u)" != 0 ]; then
    echo "install.sh: needs root to install: $(echo "$missing" | cut -d' ' -f2 | sort -u | tr '\n' ' ')" >&2
    exit 3
fi

packages=$(echo "$missing" | cut -d' ' -f2 | grep -v '^linux-image' | sort -u)
if [ -n "$packages" ]; then
    # No service of these packages may start: the cluster starts daemons of its own.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' > $policy
        chmod +x $policy
        trap 'rm -f $policy' EXIT
        trap 'exit 130' INT TERM HUP # a signal alone does not run dash's EXIT trap
    fi
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $packages
fi

if echo "$missing" | grep -q "^$cache"; then
    kernel=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p')
    [ -n "$kernel" ] || {
        echo "install.sh: apt knows no linux-image-amd64, the kernel of Debian that --fabric rxe boots:" \
            "use --fabric veth" >&2
        exit 3
    }
    part=$cache.part
    rm -rf "$part"
    mkdir -p "$part"
    (cd "$part" && apt-get download "$kernel" && dpkg-deb -x ./*.deb . && rm -f ./*.deb)
    rm -rf "$cache"
    mv "$part" "$cache"
    echo "unpacked $kernel into $cache"
fi

still_missing=$(missing_needs debian)
[ -z "$still_missing" ] || { echo "install.sh: still missing: $still_missing" >&2; exit 3; }
echo "all that --fabric $fabric needs is there"
