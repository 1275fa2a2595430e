"""Host side of Stele: the kernel's symbols, its dumps, and the reports made of them."""
