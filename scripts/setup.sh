#!/usr/bin/env bash
# Makes .venv: finds a Python and a Java that will do, then installs viewkeeper and its tools at the versions of
# constraints.txt. What is missing is reported in one sentence, before anything is made.
#
#   PYTHON      the interpreter to use (default: the first good one among python3 and python3.11 to python3.14)
#   JAVA_HOME   where Java is (default: the `java` on PATH), as Spark itself looks for it
#
# .venv/.ready is written last and holds this folder's path: an interrupted setup starts over, and so does a copy of
# the folder, whose .venv would run the code it was copied from.
#
# Until the checks are done only bash itself is used, so they work on a machine that has nothing else.
set -euo pipefail

cd -P "${BASH_SOURCE[0]%/*}/.." # the real path, as make sees it

stop() {
    echo "setup: $1" >&2
    exit 1
}

python_version() { # COMMAND -> "3.11", or nothing if it does not run (pyenv has shims for what is not installed)
    "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true
}

has_venv() {
    "$1" -c 'import ensurepip, venv' >/dev/null 2>&1
}

find_python() { # -> $python, $version
    local candidates=(python3 python3.11 python3.12 python3.13 python3.14)
    local candidate found="" no_venv=""
    if [[ -n "${PYTHON:-}" ]]; then candidates=("$PYTHON"); fi
    for candidate in "${candidates[@]}"; do
        version=$(python_version "$candidate")
        [[ -n "$version" ]] || continue
        if [[ ! "$version" =~ ^3\.1[1-4]$ ]]; then
            found="${found:-Python $version ($candidate)}"
        elif ! has_venv "$candidate"; then
            no_venv="${no_venv:-$version}"
        else
            python=$candidate
            return
        fi
    done
    if [[ -n "$no_venv" ]]; then
        stop "Python $no_venv has no venv module: install it (Debian and Ubuntu: apt install python$no_venv-venv)."
    fi
    stop "viewkeeper needs Python 3.11 to 3.14 and found ${found:-none}: install one, or name it with PYTHON=/path/to/python3."
}

java_version() { # COMMAND -> "17", or nothing if it does not run; "1.8.0_392" is 8
    local said
    said=$("$1" -version 2>&1) || return 0
    if [[ "$said" =~ version\ \"(1\.)?([0-9]+) ]]; then echo "${BASH_REMATCH[2]}"; fi
}

check_java() {
    local wanted="install one (Debian and Ubuntu: apt install openjdk-17-jre-headless or openjdk-21-jre-headless)"
    wanted+=", or name its folder with JAVA_HOME."
    local java=java found
    if [[ -n "${JAVA_HOME:-}" ]]; then java="$JAVA_HOME/bin/java"; fi
    found=$(java_version "$java")
    if [[ -z "$found" ]]; then
        stop "Spark needs Java 17 or newer and found none${JAVA_HOME:+ in JAVA_HOME ($JAVA_HOME)}: $wanted"
    elif ((found < 17)); then
        stop "Spark needs Java 17 or newer and found Java $found${JAVA_HOME:+ in JAVA_HOME ($JAVA_HOME)}: $wanted"
    fi
}

install() { # pip's own progress in a terminal; elsewhere only what goes wrong
    local quiet=--quiet
    if [[ -t 1 ]]; then quiet=--progress-bar=on; fi
    .venv/bin/python -m pip --disable-pip-version-check install "$quiet" --constraint constraints.txt "$@" ||
        stop "the installation failed for the reason above: mend that, then call make setup again."
}

check_java
find_python

if [[ ! -x .venv/bin/python || "$(cat .venv/.ready 2>/dev/null)" != "$PWD" ]]; then
    echo "setup: 1/3 making .venv with Python $version"
    "$python" -m venv --clear .venv
else
    echo "setup: 1/3 keeping .venv, bringing it up to date"
fi

echo "setup: 2/3 installing PySpark (about 450 MB, the longest step)"
install pyspark

echo "setup: 3/3 installing viewkeeper and its tools"
install --editable '.[dev]'

echo "$PWD" >.venv/.ready
echo "setup: done"
