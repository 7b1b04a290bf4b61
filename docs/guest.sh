#!/bin/sh
# The case `create` as a shell script would have it: processes that end at once, in ten batches.
#
#     guest.sh create process COUNT

if [ "$1 $2" != 'create process' ]; then
    echo "error there is no case $1 of a $2"
    exit 1
fi
each=$(($3 / 10))
batch=1
says="done made=$((each * 10))"
while [ "$batch" -le 10 ]; do
    begun=$(date +%s%N)
    i=0
    while [ "$i" -lt "$each" ]; do
        (exit 0)
        i=$((i + 1))
    done
    says="$says batch_${batch}_ns=$(($(date +%s%N) - begun))"
    batch=$((batch + 1))
done
echo "$says"
