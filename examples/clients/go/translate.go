// Translates lines with a server over gRPC: one line in, one line out, in order.
// Usage: translate [HOST:PORT] < source.txt > target.txt
package main

import (
	"bytes"
	"context"
	"io"
	"log"
	"os"
	"time"

	"google.golang.org/grpc"

	pb "translate/prediction"
)

const batchSize = 32

// translate returns the translations of some lines.
func translate(client pb.PredictionServiceClient, lines [][]byte) ([][]byte, error) {
	deadline, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	shape := &pb.TensorShapeProto{Dim: []*pb.TensorShapeProto_Dim{{Size: int64(len(lines))}}}
	text := &pb.TensorProto{Dtype: pb.DataType_DT_STRING, TensorShape: shape, StringVal: lines}
	answer, err := client.Predict(deadline, &pb.PredictRequest{
		ModelSpec: &pb.ModelSpec{Name: "translate"},
		Inputs:    map[string]*pb.TensorProto{"text": text},
	})
	return answer.GetOutputs()["translation"].GetStringVal(), err
}

func main() {
	log.SetFlags(0)
	server := "localhost:8500"
	if len(os.Args) > 1 {
		server = os.Args[1]
	}
	connection, err := grpc.Dial(server, grpc.WithInsecure())
	if err != nil {
		log.Fatalf("error: %v", err)
	}
	client := pb.NewPredictionServiceClient(connection)
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatalf("error: %v", err)
	}
	lines := bytes.Split(input, []byte("\n"))
	if last := len(lines) - 1; len(lines[last]) == 0 {
		lines = lines[:last]
	}
	for start := 0; start < len(lines); start += batchSize {
		end := start + batchSize
		if end > len(lines) {
			end = len(lines)
		}
		translations, err := translate(client, lines[start:end])
		if err != nil {
			log.Fatalf("error: %v", err)
		}
		for _, line := range translations {
			os.Stdout.Write(append(bytes.ReplaceAll(line, []byte("\n"), []byte(" ")), '\n'))
		}
	}
}
