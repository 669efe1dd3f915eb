// For iOS.

import UIKit

func store(_ notification: [AnyHashable: Any]) async throws {}
