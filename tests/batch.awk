# Joins sources of tests into one. What a file has to itself, in its unnamed namespace, stays apart from that of others: that
# namespace is put into one of the file's own. Messages and debuggers still name the file and its line.
FNR == 1 { printf "#line 1 \"%s\"\n", FILENAME; ++file }
/^namespace \{$/ { printf "namespace file_%d { namespace {\n", file; next }
/^\}  \/\/ namespace$/ { print "}}"; next }
{ print }
