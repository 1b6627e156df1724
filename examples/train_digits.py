"""A small CNN learns to read digits: forward, backward and the optimizer's update are one compiled step.

python examples/train_digits.py     # trains for ten epochs and prints the accuracy on images kept aside

The images, 8x8, come with scikit-learn: pip install -e '.[examples]'. For `pipeline compile --train`, too.
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

import pipeline

BATCH, TESTED = 64, 360

loss_fn = nn.CrossEntropyLoss()


def get_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.25),
        nn.Linear(32 * 4 * 4, 10),
    )


def get_optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=3e-3)


def get_example_inputs() -> tuple[torch.Tensor, torch.Tensor]:
    images, labels = digits()[0]
    return images[:BATCH], labels[:BATCH]


def digits() -> tuple[tuple[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    """Images (n, 1, 8, 8) from 0 to 1 and their digits, to train with and to test with, in a fixed random order."""
    pixels, digit = load_digits(return_X_y=True)
    order = torch.randperm(len(digit), generator=torch.Generator().manual_seed(0))
    images = torch.tensor(pixels, dtype=torch.float32).reshape(-1, 1, 8, 8)[order] / 16
    labels = torch.tensor(digit, dtype=torch.int64)[order]
    return (images[TESTED:], labels[TESTED:]), (images[:TESTED], labels[:TESTED])


def train(epochs: int) -> float:
    """The share of test images that the trained model reads right."""
    (images, labels), (test_images, test_labels) = digits()
    model = get_model()
    step = pipeline.compile_training(
        model,
        loss_fn,
        get_optimizer(model),
        args=(images[:BATCH], labels[:BATCH]),
        forward_args=(test_images,),
        entry_points=["train_step", "forward"],
    )
    torch.manual_seed(0)
    for epoch in range(epochs):
        batches = torch.randperm(len(labels)).split(BATCH)[:-1]  # the last one is smaller
        losses = [float(step(images[batch], labels[batch])) for batch in batches]
        print(f"epoch {epoch + 1}: loss {sum(losses) / len(losses):.4f}")
    return float((step.forward(test_images).argmax(1) == test_labels).float().mean())


if __name__ == "__main__":
    print(f"accuracy on {TESTED} other images: {100 * train(epochs=10):.1f} %")
