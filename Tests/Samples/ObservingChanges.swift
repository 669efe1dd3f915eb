actor Cache {
    func reload() {}
}
let cache = Cache()
func reload() {}
func reloadTimelines() {}
