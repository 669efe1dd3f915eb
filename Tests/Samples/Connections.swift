import Foundation

@testable import Common

var path: String { "/srv/app.sqlite" }
var bundledURL: URL { url }
