func reload() {}
