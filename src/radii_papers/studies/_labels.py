"""The labels in the places of cells: what studies plan under them, and claims read under them."""

# networks of Prach & Lampert 2025
LIPSCHITZ, STANDARD = "1-Lipschitz", "standard"
CONVNET, MLP, SMOOTHED = "CPL ConvNet", "AOL MLP", "smoothed"
ISOMETRIC, UNAUGMENTED = "isometric", "no augmentation"
BANDS = ("1-16", "1-512", "513-3072", "2049-3072", "1-16,513-3072", "1-3072")  # of principal components, Table 1

# points beyond the training set: none, real ones that were held back, made ones
NONE, REAL, DEFORMED, DRAWN = "none", "held back", "deformed", "drawn"

# attacked networks: how they were trained besides STANDARD, and what is measured of them
PGD = "PGD"
TRAINED, PGD_40, PGD_40_TRAIN = "training", "PGD-40", "PGD-40, train"
PGD_40_FREE, SUITE = "PGD-40, no box", "standard suite"
DISTANCE = "inter-class distance"

TRAINING_POINTS = {"digits": 1437, "mnist": 60_000, "cifar10": 50_000}  # of the whole datasets
