import com.google.protobuf.ByteString;
import io.grpc.ManagedChannelBuilder;
import io.grpc.StatusRuntimeException;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Scanner;
import java.util.concurrent.TimeUnit;
import prediction.*;

/**
 * Translates lines with a server over gRPC: one line in, one line out, in order.
 *
 * <p>Usage: java Translate [HOST:PORT] < source.txt > target.txt
 */
public class Translate {
  static final int BATCH_SIZE = 32;

  /** Returns the translations of some lines. */
  static List<ByteString> translate(
      PredictionServiceGrpc.PredictionServiceBlockingStub stub, List<String> lines) {
    var shape = TensorShapeProto.newBuilder();
    shape.addDim(TensorShapeProto.Dim.newBuilder().setSize(lines.size()));
    var text = TensorProto.newBuilder().setDtype(DataType.DT_STRING).setTensorShape(shape);
    lines.forEach(line -> text.addStringVal(ByteString.copyFromUtf8(line)));
    var request =
        PredictRequest.newBuilder()
            .setModelSpec(ModelSpec.newBuilder().setName("translate"))
            .putInputs("text", text.build());
    var answer = stub.withDeadlineAfter(60, TimeUnit.SECONDS).predict(request.build());
    return answer.getOutputsOrThrow("translation").getStringValList();
  }

  public static void main(String[] arguments) throws Exception {
    var server = arguments.length > 0 ? arguments[0] : "localhost:8500";
    var channel = ManagedChannelBuilder.forTarget(server).usePlaintext().build();
    var stub = PredictionServiceGrpc.newBlockingStub(channel);
    var input = new Scanner(System.in, "UTF-8").useDelimiter("\n");
    var output = new PrintStream(System.out, false, "UTF-8");
    try {
      var lines = new ArrayList<String>();
      while (input.hasNext()) {
        lines.add(input.next());
        if (lines.size() < BATCH_SIZE && input.hasNext()) continue;
        for (var translation : translate(stub, lines)) {
          output.print(translation.toStringUtf8().replace('\n', ' ') + "\n");
        }
        lines.clear();
      }
    } catch (StatusRuntimeException error) {
      System.err.println("error: " + error.getMessage());
      System.exit(1);
    } finally {
      output.flush();
      channel.shutdown();
    }
  }
}
