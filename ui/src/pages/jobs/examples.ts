/** A short manifest per kind to begin with. That they run is tested on the server's side. */
import jax from "./examples/jaxjob.yaml?raw"
import mpi from "./examples/mpijob.yaml?raw"
import paddleCloud from "./examples/paddlecloud.yaml?raw"
import paddle from "./examples/paddlejob.yaml?raw"
import pytorch from "./examples/pytorchjob.yaml?raw"
import tensorflow from "./examples/tfjob.yaml?raw"
import xgboost from "./examples/xgboostjob.yaml?raw"

export interface Example {
  kind: string
  word: string
  text: string
}

export const EXAMPLES: Example[] = [
  { kind: "PyTorchJob", word: "pytorchjob", text: pytorch },
  { kind: "TFJob", word: "tfjob", text: tensorflow },
  { kind: "JAXJob", word: "jaxjob", text: jax },
  { kind: "MPIJob", word: "mpijob", text: mpi },
  { kind: "PaddleJob", word: "paddlejob", text: paddle },
  { kind: "PaddleJob", word: "paddlejob.batch.paddlepaddle.org", text: paddleCloud },
  { kind: "XGBoostJob", word: "xgboostjob", text: xgboost },
]

/** The example with a name that is hardly taken: two people may try it on the same day. */
export function freshly(example: Example, suffix: string): string {
  return example.text.replace(/^( {2}name: .*)$/m, `$1-${suffix}`)
}
