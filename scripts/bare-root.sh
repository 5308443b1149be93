# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# A bare Debian 12 root file system, for scripts that source this file (test-bare-root, test-package).
# They set $root (where it goes) and $packages (what it has beside the minimum, with commas), and get
#
#   bare_root_make             makes it, if it is not there, and mounts proc, sys and dev
#   bare_root_run COMMAND      runs a shell command in it, with a clean environment
#   bare_root_tidy             takes the mounts away, and the root unless $keep is yes
#
# Needs root and mmdebstrap (installed if missing).  The package mirror and proxy are this machine's;
# certificates of its own that it trusts are taken along.

mounted=()

bare_root_tidy() {
  local i
  for ((i = ${#mounted[@]} - 1; i >= 0; i--)); do
    umount --recursive "${mounted[i]}" || umount --lazy "${mounted[i]}"
  done
  if [ "${keep:-no}" = yes ]; then
    echo "the root is left in $root"
  else
    rm -rf --one-file-system "$root"
  fi
}

# bare_root_mirror NAME DEFAULT: where this machine gets Debian's archive of that name from.
bare_root_mirror() {
  local found
  found=$(grep -rhoE "https?://[^ ]*/$1/?( |$)" /etc/apt/sources.list /etc/apt/sources.list.d 2>/dev/null |
    head -n 1 | tr -d ' ' || true)
  echo "${found:-$2}"
}

bare_root_make() {
  command -v mmdebstrap >/dev/null || {
    apt-get update -q && apt-get install -qy --no-install-recommends mmdebstrap
  } >/dev/null
  local mirror security
  mirror=$(bare_root_mirror debian http://deb.debian.org/debian)
  security=$(bare_root_mirror debian-security http://deb.debian.org/debian-security)
  if [ ! -e "$root/etc/debian_version" ]; then
    mmdebstrap --quiet --variant=minbase --include="$packages" bookworm "$root" \
      "deb $mirror bookworm main" "deb $mirror bookworm-updates main" \
      "deb $security bookworm-security main"
  fi
  # What this machine needs to reach the registries: resolver, proxy, its own certificates.
  cp -L /etc/resolv.conf "$root/etc/resolv.conf"
  cp -L /etc/hosts "$root/etc/hosts"
  if compgen -G '/etc/apt/apt.conf.d/*proxy*' >/dev/null; then
    cp /etc/apt/apt.conf.d/*proxy* "$root/etc/apt/apt.conf.d/"
  fi
  mkdir -p "$root/usr/local/share/ca-certificates"
  if compgen -G '/usr/local/share/ca-certificates/*.crt' >/dev/null; then
    cp /usr/local/share/ca-certificates/*.crt "$root/usr/local/share/ca-certificates/"
    chroot "$root" update-ca-certificates >/dev/null
  fi
  # A mount point of its own, so that tests in it can have mounts of their own (unshare --mount).
  mount --bind "$root" "$root"
  mount --make-private "$root"
  mounted+=("$root")
  local dir
  for dir in proc sys dev; do
    mount --rbind "/$dir" "$root/$dir"
    mount --make-rslave "$root/$dir"
    mounted+=("$root/$dir")
  done
}

bare_root_run() {
  (bare_root_exec "$@")
}

# As bare_root_run, but takes the place of this shell: `(bare_root_exec COMMAND) &` has its number in $!.
bare_root_exec() {
  local variables=(HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8)
  local name
  for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY npm_config_registry; do
    [ -z "${!name:-}" ] || variables+=("$name=${!name}")
  done
  if [ -d "$root/usr/local/share/ca-certificates" ]; then
    variables+=(NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt)
  fi
  exec chroot "$root" /usr/bin/env -i "${variables[@]}" /bin/bash -c "$*"
}
