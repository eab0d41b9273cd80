"""Small talk: messages that ask for nothing that a tool could do, and what is honestly said to them."""

import re
from typing import Literal

Talk = Literal["greeting", "feeling", "thanks", "farewell", "who", "help", "agreed", "never_mind"]

_TALK: tuple[tuple[Talk, str], ...] = (
    ("feeling", r"(?:hi|hello|hey|你好|您好)?\W*(?:how are you(?: doing)?(?: today)?|how's it going|how do you do|what's up|你好吗|最近怎么样|你怎么样|最近好吗)"),
    ("greeting", r"(?:hi|hello|hey|howdy|greetings|yo|good (?:morning|afternoon|evening|day))(?: there| everyone| all| toolyard| again)?"
                 r"|你好|您好|早上好|早安|早|下午好|晚上好|中午好|嗨|哈喽|大家好|在吗|你在吗|您在吗"),
    ("thanks", r"(?:ok(?:ay)?\W*)?(?:great\W*|perfect\W*|good\W*)?(?:thanks?|thank you|thx|cheers|much appreciated|ta)(?: (?:a lot|so much|very much|again|a million|for (?:your|the) help|for that|for everything|you))*"
               r"|(?:好的?\W*)?(?:太好了\W*)?(?:非常|十分|太)?(?:感谢|谢谢|多谢|谢了|辛苦)(?:你|您|了|啦|你们|您了|你了|你的帮助|您的帮助)*"),
    ("farewell", r"(?:good)?bye(?: bye)?(?: for now)?|see you(?: later| soon| tomorrow)?|good night|have a (?:nice|good|great) (?:day|evening|weekend|one)|再见|拜拜|晚安|回头见|明天见|下次见"),
    ("who", r"who are you|what are you|what's your name|what is your name|are you (?:a |an )?(?:real |)(?:human|bot|robot|ai|person|chatgpt|language model|llm|machine)(?: or .*)?"
            r"|tell me about yourself|introduce yourself|你是谁|您是谁|你叫什么(?:名字)?|你是(?:机器人|人|人工智能|真人)(?:吗|么)?|介绍一下你自己|自我介绍(?:一下)?"),
    ("help", r"help(?: me)?|what can you do(?: for (?:me|us))?|what can i (?:do|ask|say)(?: here)?|what do you do|how (?:can|could) you help(?: me)?|how does this work|what are you able to do|(?:show |list )?(?:me )?(?:your )?(?:commands|options|capabilities|features)"
             r"|你(?:能|会|可以)(?:做|干|帮我做|帮我)?(?:什么|些什么|哪些事)?(?:事)?|你有什么功能|有什么功能|帮助|怎么用|如何使用|你都能做什么|能做什么"),
    ("agreed", r"(?:yes|yep|yeah|ok|okay|sure|fine|great|cool|nice|perfect|good|no|nope|well done|awesome|wonderful|excellent|lol|haha|hmm)(?: (?:please|then|job|work|thanks))?|好|好的|行|可以|嗯|没问题|不用了|不|是的|对|太好了|真棒|不错|哈哈|知道了|明白了"),
    ("never_mind", r"never ?mind|forget (?:it|about it|that)|cancel(?: that| it)?|stop|don't bother|算了|不用了|没事了|取消(?:吧)?"),
)  # fmt: skip
_FILLED = re.compile(r"(?i)\b(?:please|toolyard|assistant|my friend|buddy|dear)\b|呀|啊|哦|哈|！|!|呢|吧")
_PATTERNS = [(kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _TALK]


def small_talk(message: str) -> Talk | None:
    """What kind of small talk the whole message is, if it is."""
    text = message.replace("’", "'")
    parts = [part for part in re.split(r"[.!?,;。！？，；~～]+", text) if part.strip(" \t\n:)")]
    kinds = [_kind(part) for part in parts]
    if not kinds or None in kinds:
        return None
    return next((kind for kind in kinds if kind in ("who", "help", "feeling", "thanks", "never_mind")), kinds[0])


def _kind(part: str) -> Talk | None:
    text = " ".join(_FILLED.sub(" ", part).split()).strip(" :)")
    return next((kind for kind, pattern in _PATTERNS if pattern.fullmatch(text)), None)
