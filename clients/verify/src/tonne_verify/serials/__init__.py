"""Serial numbers as registries write them. The server of Tonne reads and prints serials with this package, too."""
