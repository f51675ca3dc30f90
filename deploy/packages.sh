# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# The Debian packages that this tree needs, in one place. To be sourced by bash.
#
#   packages_missing [checks [long]]   prints those that are not installed, one a line; `checks` adds what only
#                                      tests/run needs, `long` what only its long tests need
#   packages_install NAME...    installs them with apt-get, as root or by sudo; asks nothing

packages_build=(
  gcc libc6-dev cmake ninja-build pkg-config
  libhiredis-dev libevent-dev libpq-dev libxxhash-dev libjansson-dev libcmocka-dev libssl-dev libcrypt-dev
  libsystemd-dev
  dpkg-dev file # cpack: which libraries the package depends on
  redis-server redis-tools postgresql
)
# prometheus: for promtool; see packages_install.
packages_checks=(
  clang clang-format clang-tidy spin tcc openssl curl python3 nodejs npm chromium
  python3-prometheus-client python3-psycopg2 python3-redis python3-yaml
  groff-base man-db mandoc tmux zsh fish
  prometheus # for promtool; see packages_install
  systemd    # systemd-analyze
  php-cli php-pgsql php-redis ruby ruby-pg ruby-redis # docs/examples
)
# Half a gigabyte: the example in Go.
packages_long=(golang-go golang-github-gomodule-redigo-dev golang-github-lib-pq-dev)

packages_missing() { # [checks [long]]
  local name installed
  local -a wanted=("${packages_build[@]}")
  if [[ ${1:-} == checks ]]; then wanted+=("${packages_checks[@]}"); fi
  if [[ ${2:-} == long ]]; then wanted+=("${packages_long[@]}"); fi
  if ! command -v dpkg-query >/dev/null; then
    echo "packages: this is no Debian; install the equivalents of: ${wanted[*]}" >&2
    return 0
  fi
  # shellcheck disable=SC2016 # a format of dpkg-query, not variables
  installed=$(dpkg-query -W -f ' ${Package} ${db:Status-Status}\n' "${wanted[@]}" 2>/dev/null || true)
  for name in "${wanted[@]}"; do
    # These often come from elsewhere, and Debian's would not go with them.
    case $name in nodejs | npm) if command -v "${name%js}" >/dev/null; then continue; fi ;; esac
    if [[ $installed != *" $name installed"* ]]; then echo "$name"; fi
  done
}

packages_install() { # NAME...
  local -a as_root=()
  (($# > 0)) || return 0
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      echo "packages: neither root nor sudo; as root run: apt-get install --no-install-recommends $*" >&2
      return 1
    fi
    as_root=(sudo)
  fi
  local -a apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y
    -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0)
  "${apt[@]}" update || return
  # Wanted for its tools: where it was not there before, its server shall not run on this machine.
  local -a unit=()
  if [[ " $* " == *" prometheus "* && -d /run/systemd/system ]]; then unit=(prometheus.service); fi
  if ((${#unit[@]} > 0)); then "${as_root[@]}" systemctl -q mask "${unit[@]}" || true; fi
  "${apt[@]}" install --no-install-recommends "$@"
  local status=$?
  if ((${#unit[@]} > 0)); then
    "${as_root[@]}" systemctl -q unmask "${unit[@]}" || true
    "${as_root[@]}" systemctl -q disable "${unit[@]}" || true
  fi
  return "$status"
}
