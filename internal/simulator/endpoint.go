package simulator

import (
	"net/http"
	"strings"
)

// serveEndpoint answers an endpoint of SageMaker whose container has the chat
// protocol: /endpoints/{name}/invocations, and -response-stream for streams.
// https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpointWithResponseStream.html
func serveEndpoint(x *exchange) {
	name := modelBetween(x.r.URL.Path, "/endpoints/", "/")
	x.parts = strings.HasSuffix(x.r.URL.Path, "-response-stream")
	q := chatRequest{model: []byte(name)}
	x.chat(&q)
}

// partWriter sends its data as binary messages, each with an arbitrary part of
// it.
type partWriter struct{ to http.ResponseWriter }

// Write sends b in two parts.
func (w partWriter) Write(b []byte) (int, error) {
	half := len(b) / 3
	for _, part := range [][]byte{b[:half], b[half:]} {
		if len(part) == 0 {
			continue
		}
		if _, err := w.to.Write(sealMessage(append(appendPrelude(nil, "event", "PayloadPart"), part...))); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}
