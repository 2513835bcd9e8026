"""A pipeline of four steps: make a volume, train a model, predict with it, show the result.

    pip install kfp kfp-kubernetes
    python train_and_predict.py        # writes train_and_predict.yaml
    muster run train_and_predict.yaml  # or upload it, or kfp.Client(...).create_run_from_pipeline_func(...)

The model, the test data and the predictions are on the volume. Metrics and the confusion matrix are artifacts, which
the UI shows.
"""

from pathlib import Path

from kfp import compiler, dsl, kubernetes
from kfp.dsl import ClassificationMetrics, Metrics, Output

PACKAGES = ["scikit-learn==1.5.2"]


@dsl.component(base_image="python:3.11", packages_to_install=PACKAGES)
def train(folder: str, trees: int, metrics: Output[Metrics]) -> str:
    """Trains a classifier of handwritten digits, and keeps a quarter of the data for the test."""
    import os

    import joblib
    from sklearn.datasets import load_digits
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import train_test_split

    images, digits = load_digits(return_X_y=True)
    images, test_images, digits, test_digits = train_test_split(images, digits, test_size=0.25, random_state=0)
    model = RandomForestClassifier(trees, random_state=0).fit(images, digits)
    print(f"trained {trees} trees on {len(images)} images")
    metrics.log_metric("training images", len(images))
    metrics.log_metric("training accuracy", model.score(images, digits))
    file = os.path.join(folder, "model.joblib")
    joblib.dump(model, file)
    joblib.dump((test_images, test_digits), os.path.join(folder, "test.joblib"))
    return file


@dsl.component(base_image="python:3.11", packages_to_install=PACKAGES)
def predict(folder: str, model: str, metrics: Output[Metrics], matrix: Output[ClassificationMetrics]) -> float:
    """Predicts the digits of the test, and writes them to a file on the volume."""
    import os

    import joblib
    from sklearn.metrics import accuracy_score, confusion_matrix

    images, digits = joblib.load(os.path.join(folder, "test.joblib"))
    predicted = joblib.load(model).predict(images)
    accuracy = float(accuracy_score(digits, predicted))
    metrics.log_metric("accuracy", accuracy)
    matrix.log_confusion_matrix([str(digit) for digit in range(10)], confusion_matrix(digits, predicted).tolist())
    with open(os.path.join(folder, "predictions.txt"), "w") as file:
        for digit, guess in zip(digits, predicted, strict=True):
            file.write(f"{digit} {guess}\n")
    return accuracy


@dsl.component(base_image="python:3.11")
def show(folder: str, accuracy: float):
    """Prints the result."""
    import os

    with open(os.path.join(folder, "predictions.txt")) as file:
        lines = file.readlines()
    wrong = [line.split() for line in lines if len(set(line.split())) > 1]
    print(f"accuracy {accuracy:.3f}: {len(wrong)} of {len(lines)} digits are wrong")
    for digit, guess in wrong[:5]:
        print(f"a {digit} was taken for a {guess}")


@dsl.pipeline(name="train-and-predict", description="Train a classifier of handwritten digits, and test it")
def train_and_predict(trees: int = 100):
    claim = kubernetes.CreatePVC(
        pvc_name_suffix="-digits", access_modes=["ReadWriteOnce"], size="100Mi", storage_class_name="standard"
    )
    volume = claim.outputs["name"]
    training = train(folder="/data", trees=trees)
    prediction = predict(folder="/data", model=training.outputs["Output"])
    result = show(folder="/data", accuracy=prediction.outputs["Output"])
    for task in (training, prediction, result):
        kubernetes.mount_pvc(task, pvc_name=volume, mount_path="/data")
    kubernetes.DeletePVC(pvc_name=volume).after(result)


if __name__ == "__main__":
    compiler.Compiler().compile(train_and_predict, str(Path(__file__).with_suffix(".yaml")))
