"""Busybox' tools on files in /tmp: links, times, owners, archives, an editor, and more."""
import pytest

from guest import guest

pytestmark = pytest.mark.cpus(1)

SCRIPT = r"""
say() { echo "$@"; }
mkdir /tmp/t; cd /tmp/t
printf '#!/usr/bin/env sh\necho run by $0 with $#\n' > script; chmod +x script; ./script a b
env -i A=1 env

echo text > file; ln file hard; ln -s file soft; ln -sf nowhere loose
readlink soft; stat -c '%h %a %u %s' hard; cat soft; cat loose 2> /dev/null || say loose
touch -d '2001-02-03 04:05:06' file; stat -c %y hard | cut -c1-19; find . -name 'h*' -newer script || say no
find . -type f -links 2 | sort; find . -type l -exec readlink {} \; | sort

chown 7:8 file; stat -c %u:%g file; chgrp 0 file; id -u; id -un; whoami; su nobody -c 'id -un; cat /tmp/t/secret' 2> /dev/null
mkfifo pipe; (echo through > pipe &); cat pipe; test -p pipe && say fifo

mkdir -p tree/sub; cp file tree/sub/copy; ln tree/sub/copy tree/second; ln -s sub/copy tree/link; chmod 4711 tree/second
seq 1 2000 > tree/numbers; touch -d 2001-02-03 tree/numbers
tar cf - tree | gzip -9 > tree.tar.gz; mkdir out; tar xzpf tree.tar.gz -C out; tar tzf tree.tar.gz | sort
(cd tree && find . -type f | sort | xargs sha256sum) > sums; (cd out/tree && sha256sum -c ../../sums)
stat -c '%h %a %s %Y' tree/second tree/numbers > one; cd out; stat -c '%h %a %s %Y' tree/second tree/numbers > ../two; cd ..
cmp one two && say same; readlink out/tree/link; rm -r out
find tree | cpio -o -H newc 2> /dev/null > tree.cpio; mkdir out; (cd out; cpio -id < ../tree.cpio 2> /dev/null); diff -r tree out/tree && say same
gunzip -c tree.tar.gz | tar tf - | wc -l; gzip numbers-of-none; say status $?
zcat tree.tar.gz | cmp - tree.tar.gz | cut -d' ' -f1-3

printf 'one\ntwo\nthree\n' > a; sed s/two/2/ a > b; diff -u a b > difference; patch a < difference > /dev/null; cmp a b && say patched
printf '2s/2/deux/\nw\nq\n' | ed a > /dev/null; cat a
printf '4\n2\n9\n' | xargs -n 1 echo got | sort; timeout 0.2 sleep 20; say status $?
sha1sum < /dev/null | cut -c1-8; cksum < a; sort a > c; sort b | comm -12 - c; nl -ba b | tail -1; paste -s -d, b; printf 'a\tb\n' | expand -t 4; tac b | head -1
realpath ./tree/../soft; mktemp -d /tmp/t/XXXXXX | cut -c1-7; truncate -s 5 a; stat -c %s a; setsid sh -c 'exit 4'; say status $?; stty < a 2>&1; nice -n 5 sh -c 'nice; exit 3'; say status $?
echo end
"""

SAYS = """run by ./script with 2
A=1
file
2 644 0 5
text
loose
2001-02-03 04:05:06
./file
./hard
file
nowhere
7:8
0
root
root
nobody
through
fifo
tree/
tree/link
tree/numbers
tree/second
tree/sub/
tree/sub/copy
./numbers: OK
./second: OK
./sub/copy: OK
same
sub/copy
same
6
status 1
- tree.tar.gz differ:
patched
one
deux
three
got 2
got 4
got 9
status 143
da39a3ee
3028222659 15
one
three
     3	three
one,2,three
a   b
three
/tmp/t/file
/tmp/t/
5
status 4
stty: standard input: Not a terminal
5
status 3
end
"""


def test_tools():
    result = guest(SCRIPT)
    assert result.stdout == SAYS, result
    assert result.status == 0
