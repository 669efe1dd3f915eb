struct Person: Codable, Sendable {
    var name: String
}

struct Stamp: Codable, Sendable {}
