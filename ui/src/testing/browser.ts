/** The parts of a browser that modules read while they are imported. Tests run in Node, which has none of them. */

Object.assign(globalThis, { window: { location: { origin: "https://fairlead.test" } } });
