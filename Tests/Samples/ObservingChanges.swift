actor Cache {
    func reload() {}
}
let cache = Cache()
func reloadTimelines() {}
