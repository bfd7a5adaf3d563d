#!/bin/sh
# From a folder of OPUS-MT's layout to a translation server, and on to one's own text.
#
#     pip install pymarian
#     sh examples/opus_mt.sh work
#     sh examples/opus_mt.sh work --layers=6 --updates=1200
#
# The folder is made here: further flags are those of make_opus_mt.py. With a downloaded
# model, begin at convert. work/test.de has the server's translations.
set -eu
work=$1
shift
examples=$(dirname "$0")

python "$examples/../data/grammar_ende/write_text.py" "$work/text"
python "$examples/make_opus_mt.py" "$work/text" "$work/opus-mt" "$@"

python -m t2t_keras.convert --from=marian --input="$work/opus-mt" \
    --model_dir="$work/runs/opus" --source_language=en --target_language=de
python -m t2t_keras.export --model_dir="$work/runs/opus"

python -m t2t_keras.serve --model_base_path="$work/runs/opus/export" \
    --model_name=translate --port=0 > "$work/serve.log" &
server=$!
trap 'kill $server' EXIT
until grep -q " serving .* on port" "$work/serve.log"; do
    kill -0 $server # it ends if it cannot serve
    sleep 1
done
port=$(sed -n 's/.* serving .* on port //p' "$work/serve.log")
head -n 200 "$work/text/test.en" |
    python -m t2t_keras.client --server="localhost:$port" > "$work/test.de"

for split in train validation; do
    for language in en de; do
        head -n 500 "$work/text/$split.$language" > "$work/$split.$language"
    done
done
python -m t2t_keras.train --flagfile="$work/runs/opus/train.flags" \
    --init_from="$work/runs/opus" --model_dir="$work/runs/adapted" \
    --train_source="$work/train.en" --train_target="$work/train.de" \
    --dev_source="$work/validation.en" --dev_target="$work/validation.de" \
    --train_steps=20 --eval_steps=20 --tokens_per_batch=2000 --score_split=dev \
    --learning_rate_scale=0.1 --warmup_steps=10 --nojit_compile
