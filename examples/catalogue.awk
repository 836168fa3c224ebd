# Joins a Debian package index (first file) with the English descriptions (second file) by Description-md5 and writes
# rows `section TAB text` to `out`/train.tsv.part, dev.tsv.part and test.tsv.part.
#
# - The label is the package's section without its component (contrib/, non-free/). Sections that say how a package is
#   used and not what it is about (debug, oldlibs, metapackages, tasks, introspection, localization) and sections with
#   fewer than 100 rows are left out.
# - The text is the synopsis and the long description in one line.
# - One row per description, however many packages share it; the first package gives section and source.
# - The split is by a hash of the name of the *source* package, 80/10/10: packages built from one source describe
#   themselves in almost the same words, and must not stand on both sides.
#
# Plain awk: mawk, gawk and busybox give the same files.

BEGIN {
    FS = "\n"
    n = split("debug oldlibs metapackages tasks introspection localization", names, " ")
    for (i = 1; i <= n; i++) skip[names[i]] = 1
    for (i = 1; i < 128; i++) code[sprintf("%c", i)] = i
    rows = 0
}

# A bucket from 0 to 9. All numbers stay below 2^53, so that they are exact in any awk.
function bucket(s,    h, i) {
    h = 5381
    for (i = 1; i <= length(s); i++) h = (h * 8191 + code[substr(s, i, 1)]) % 1000000007
    h = (h * 48271) % 2147483647
    return int(h / 65536) % 10
}

function value(line) {
    sub(/^[^:]*: */, "", line)
    return line
}

# --- first file: what each description belongs to ---

function end_package() {
    sub(/^.*\//, "", section)
    if (md5 != "" && section != "" && !(section in skip) && !(md5 in section_of)) {
        section_of[md5] = section
        sub(/ .*/, "", source)
        source_of[md5] = source != "" ? source : package
    }
    md5 = section = source = package = ""
}

FNR == 1 { file++ }

file == 1 && /^$/ { end_package(); next }
file == 1 && /^Package: / { package = value($0); next }
file == 1 && /^Source: / { source = value($0); next }
file == 1 && /^Section: / { section = value($0); next }
file == 1 && /^Description-md5: / { md5 = value($0); next }
file == 1 { next }

# --- second file: the texts ---

function end_text() {
    if (md5 in section_of && !(md5 in done) && text != "") {
        gsub(/[ \t\r]+/, " ", text)
        sub(/ $/, "", text)
        done[md5] = 1
        key[++rows] = md5
        text_of[rows] = text
        count[section_of[md5]]++
    }
    md5 = text = ""
    inside = 0
}

/^$/ { end_text(); next }
/^Description-md5: / { md5 = value($0); next }
/^Description-en: / { text = value($0); inside = 1; next }
/^ \.$/ { next }
/^ / { if (inside) text = text $0; next }
{ inside = 0 }

END {
    end_text()
    for (i = 1; i <= rows; i++) {
        section = section_of[key[i]]
        if (count[section] < 100) continue
        b = bucket(source_of[key[i]])
        name = b == 8 ? "dev" : b == 9 ? "test" : "train"
        print section "\t" text_of[i] > (out "/" name ".tsv.part")
        written[name]++
    }
    classes = 0
    for (section in count) if (count[section] >= 100) classes++
    n = split("train dev test", names, " ")
    for (i = 1; i <= n; i++) {
        if (!written[names[i]]) {
            print "catalogue.awk: no rows for " names[i] ".tsv" | "cat 1>&2"
            exit 1
        }
    }
    printf "%d classes; rows: train %d, dev %d, test %d\n", classes, written["train"], written["dev"], written["test"]
}
