// Translates lines with a server over gRPC: one line in, one line out, in order.
// Usage: node translate.js prediction_service.proto [HOST:PORT] < source.txt > target.txt
import fs from 'node:fs';
import grpc from '@grpc/grpc-js';
import protoLoader from '@grpc/proto-loader';

const BATCH_SIZE = 32;
const [proto, server = 'localhost:8500'] = process.argv.slice(2);
const definition = grpc.loadPackageDefinition(protoLoader.loadSync(proto));
const client = new definition.tensorflow.serving.PredictionService(
  server, grpc.credentials.createInsecure());

/** Returns the translations of some lines. */
function translate(lines) {
  const text = {
    dtype: 'DT_STRING',
    tensorShape: {dim: [{size: lines.length}]},
    stringVal: lines.map((line) => Buffer.from(line)),
  };
  const request = {modelSpec: {name: 'translate'}, inputs: {text}};
  const options = {deadline: Date.now() + 60_000};
  return new Promise((resolve, reject) => {
    client.Predict(request, options, (error, answer) => {
      if (error) return reject(error);
      resolve(answer.outputs.translation.stringVal.map(String));
    });
  });
}

const lines = fs.readFileSync(0, 'utf8').split('\n');
if (lines.at(-1) === '') lines.pop();
try {
  for (let start = 0; start < lines.length; start += BATCH_SIZE) {
    for (const line of await translate(lines.slice(start, start + BATCH_SIZE))) {
      process.stdout.write(line.replaceAll('\n', ' ') + '\n');
    }
  }
} catch (error) {
  console.error(`error: ${error.message}`);
  process.exitCode = 1;
}
client.close();
