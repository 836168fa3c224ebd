#!/bin/sh
# Makes a data set for text classification from Debian's own package catalogue.
#
#     examples/catalogue.sh OUTDIR
#
# writes OUTDIR/train.tsv, dev.tsv and test.tsv, each row `section TAB description`: 44 sections and about 59,000
# descriptions of Debian 12. catalogue.awk says what becomes a row and how the three files are split.
#
# Needs apt, a network that reaches the machine's own package sources, and awk; no root. The indexes are kept in
# OUTDIR/apt (about 15 MB, packed), so a second run only asks whether they have changed. Nothing of the system's state
# is read or written but its list of sources and their keys.
set -eu
export LC_ALL=C

if [ $# -ne 1 ] || [ "${1#-}" != "$1" ]; then
    echo "usage: $0 OUTDIR" >&2
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
case $out in *[\"\;]*) echo "$0: no quotes or semicolons in the path, please: $out" >&2; exit 2 ;; esac

# A configuration file, read after the system's own: lists can be emptied in no other way. The hooks of apt-get update are
# among them (one would refresh the software catalogue of a desktop).
mkdir -p "$out/apt/lists/partial" "$out/apt/cache/archives/partial"
cat > "$out/apt/apt.conf" <<END
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear Acquire::Languages;
Acquire::Languages { "en"; };
Acquire::GzipIndexes "true";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Acquire::IndexTargets::deb::CNF::DefaultEnabled "false";
Acquire::IndexTargets::deb-src::Sources::DefaultEnabled "false";
Dir::State::lists "$out/apt/lists";
Dir::State::extended_states "$out/apt/extended_states";
Dir::Cache "$out/apt/cache";
Dir::Cache::archives "$out/apt/cache/archives";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
END

echo "fetching the package index and the English descriptions into $out/apt"
if ! apt-get -q -c "$out/apt/apt.conf" update > "$out/apt/log" 2>&1; then
    cat "$out/apt/log" >&2
    echo "$0: apt-get update failed (its words are above)" >&2
    exit 1
fi

# Debian's release itself, main; not its -updates and -security suites nor other people's packages, so that every machine
# with the same release gets the same rows.
targets() {
    apt-get -c "$out/apt/apt.conf" indextargets --format '$(CODENAME) $(COMPONENT) $(FILENAME)' "Created-By: $1" "Origin: Debian" |
        awk '$1 !~ /[-\/]/ && $2 == "main" { sub(/^[^ ]* [^ ]* /, ""); print }'
}
unpack() {
    targets "$1" | while IFS= read -r file; do
        /usr/lib/apt/apt-helper cat-file "$file"
        echo
    done > "$out/apt/$1"
    if ! grep -q '^Description-md5:' "$out/apt/$1"; then
        cat "$out/apt/log" >&2
        echo "$0: apt-get update brought no $1 of a Debian release (its words are above)" >&2
        exit 1
    fi
}
unpack Packages
unpack Translations

awk -v out="$out" -f "$here/catalogue.awk" "$out/apt/Packages" "$out/apt/Translations"
rm -f "$out/apt/Packages" "$out/apt/Translations"
for name in train dev test; do
    mv "$out/$name.tsv.part" "$out/$name.tsv"
done
