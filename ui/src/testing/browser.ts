/** Browser globals that modules read at import time. Tests run in Node, which does not have them. */

Object.assign(globalThis, { window: { location: { origin: "https://fairlead.test" } } });
