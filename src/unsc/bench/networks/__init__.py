"""The networks that the demo and the experiments use, written to be read: one architecture a file."""

from unsc.bench.networks.alexnet import AlexNet
from unsc.bench.networks.allcnn import AllCNN
from unsc.bench.networks.densenet import DenseNet
from unsc.bench.networks.digits import digits_cnn, digits_mlp
from unsc.bench.networks.named import NETWORKS, network
from unsc.bench.networks.resnet import ResNet18, ResNet20, ResNet56
from unsc.bench.networks.vgg import VGG11

__all__ = [
    "NETWORKS",
    "VGG11",
    "AlexNet",
    "AllCNN",
    "DenseNet",
    "ResNet18",
    "ResNet20",
    "ResNet56",
    "digits_cnn",
    "digits_mlp",
    "network",
]
